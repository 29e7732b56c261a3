"""The commands of groups of runs."""
