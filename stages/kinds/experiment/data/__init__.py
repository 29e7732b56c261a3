"""Data sets: read from files, understood, split."""
