"""The routes that workers use beside ingest: claims, and uploads of files."""
