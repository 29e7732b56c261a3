"""The results of a run, and the numbers that its paper may name."""
