"""Runs that begin at their own time."""
