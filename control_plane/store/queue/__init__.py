"""Queries on what waits and what is claimed."""
