"""Queries of the verifier, and the evidence that it makes of whole runs."""
