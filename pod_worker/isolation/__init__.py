"""Separates the process of a run from its worker."""
