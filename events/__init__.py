"""The language of the fleet: what is said about a run, and how it travels."""
