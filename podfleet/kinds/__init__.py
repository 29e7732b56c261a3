"""The nouns that kinds of run bring to the command line."""
