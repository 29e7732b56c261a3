"""The commands that check and repair a fleet: its settings, its dependencies, its database."""
