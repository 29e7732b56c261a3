"""One claimed attempt, from its start to its settle."""
