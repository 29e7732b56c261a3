"""Compares the database with its own log and its invariants, and rebuilds its documents from the log."""
