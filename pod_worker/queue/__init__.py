"""The queue as a worker uses it, its two adapters, and this pod's entry in the roster."""
