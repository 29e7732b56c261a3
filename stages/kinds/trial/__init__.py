"""Trials: an engine is served with launch parameters, and measured under a load."""
