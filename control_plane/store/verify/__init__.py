"""Queries of the verifier, and the evidence that it collects of whole runs."""
