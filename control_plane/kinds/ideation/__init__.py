"""What ideation adds: hypotheses, the ideas that were found for them, and their runs."""
