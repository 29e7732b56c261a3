"""Where the records of a suite come from."""
