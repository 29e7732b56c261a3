"""Commands of operation and measurement."""
