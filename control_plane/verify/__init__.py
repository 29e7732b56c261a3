"""The database held against its own log and its invariants; reads only."""
