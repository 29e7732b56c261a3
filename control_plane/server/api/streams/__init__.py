"""Server-sent events: changes of the fleet, and what runs show while they run."""
