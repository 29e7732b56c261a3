"""Queries on waiting and on claimed runs."""
