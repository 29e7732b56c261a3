"""The answers about who may do what, and who did: keys, secrets, and the audit log."""
