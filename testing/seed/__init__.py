"""Fills a store with a fleet's past: as many runs and events as somebody asks for."""
