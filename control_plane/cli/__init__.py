"""The command `podfleet`."""
