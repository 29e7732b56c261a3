"""Queries on who may do what: keys, sessions, secrets, and the audit log."""
