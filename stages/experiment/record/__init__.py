"""What a run found out, and the numbers that its paper may name."""
