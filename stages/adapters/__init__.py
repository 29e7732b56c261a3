"""Adapters of pipelines to the outside: programs, models, indexes."""
