"""What experiments add: the search tree of a run, and its nodes with their code."""
