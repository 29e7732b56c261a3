"""Keeping and letting go: deletion of runs and hypotheses on request, retention of what is old."""
