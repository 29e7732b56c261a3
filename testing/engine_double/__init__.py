"""An engine that is none: a real server with a known best configuration, and the faults of real engines."""
