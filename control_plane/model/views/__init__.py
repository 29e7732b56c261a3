"""Stored documents as the answers of the HTTP interface, one module a noun; pure."""
