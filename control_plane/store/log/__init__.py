"""Queries on the event log, and on what is projected or counted beside it."""
