"""Workers and pipelines that measure themselves."""
