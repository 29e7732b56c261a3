"""A run as one file: how its archive is written, and checked without a fleet."""
