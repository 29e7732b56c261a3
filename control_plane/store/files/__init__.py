"""Queries on file trees, data sets, and the objects that hold them."""
