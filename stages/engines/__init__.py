"""Engines that serve a model on this pod: rows of what there is, and one way to start and end them."""
