"""Draws pictures as SVG, and finds the pictures of a run."""
