"""Queries of the verifier and the rebuild, and the evidence that they collect about whole runs."""
