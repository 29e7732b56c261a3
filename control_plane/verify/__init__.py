"""The database held against its own log and its invariants, and its documents made anew from the log."""
