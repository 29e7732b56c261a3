"""Queries of the verifier and the rebuild, and the evidence that they make of whole runs."""
