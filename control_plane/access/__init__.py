"""Who sends a request, and what they may do: keys, sessions, run tokens, and the audit log."""
