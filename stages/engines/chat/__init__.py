"""Asks an engine one question at a time: what it says as it says it, and when."""
