"""Authentication and authorisation: keys, sessions, run tokens, and the audit log."""
