"""Ingest: events on their way into the log, and their application to the documents."""
