"""What only tests and campaigns use; no program of the fleet imports it."""
