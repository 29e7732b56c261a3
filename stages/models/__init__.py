"""The port of a language model: its answers, its cost, its failures."""
