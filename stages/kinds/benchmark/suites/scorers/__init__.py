"""How an answer becomes a score, one module for each way."""
