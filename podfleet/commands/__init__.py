"""The commands of `podfleet`, one module a noun."""
