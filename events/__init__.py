"""The language of the fleet: the events of a run, and how they travel."""
