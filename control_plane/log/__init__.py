"""Events on their way into the log, and what is decided by them."""
