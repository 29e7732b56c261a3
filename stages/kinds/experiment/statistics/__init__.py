"""Scores, their errors, and whether a difference holds; no input or output."""
