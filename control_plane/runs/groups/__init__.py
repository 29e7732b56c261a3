"""Groups: sets of runs with a plan, whose slots are submitted exactly once."""
