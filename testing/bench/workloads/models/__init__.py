"""Benches of what asks language models."""
