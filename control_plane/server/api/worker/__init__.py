"""The routes that workers use: claims, ingest, uploads."""
