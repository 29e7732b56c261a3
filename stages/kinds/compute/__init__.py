"""What a computation does: works that measure a machine, each prepared before and checked after its laps."""
