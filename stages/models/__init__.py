"""A language model as a pipeline sees it: its answers, its cost, its failures."""
