"""The command `podfleet`, and the servers that it starts on one machine."""
