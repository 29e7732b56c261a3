"""The commands of `podfleet`, one module for each noun."""
