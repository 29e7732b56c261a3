"""The routes on who may do what, and who did: keys, secrets, the audit log."""
