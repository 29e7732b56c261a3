"""The foundation of every program of the fleet: clock, errors, loops, logs, access."""
