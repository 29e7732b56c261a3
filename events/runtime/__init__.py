"""What every program of the fleet stands on: clock, errors, loops, logs, access."""
