"""The server: ingests events, maintains the documents, serves the API and the pages."""
