"""Executes untrusted programs: starts, watches and confines them on this machine."""
