"""The commands on who may do what, and who did: keys, secrets, and the audit log."""
