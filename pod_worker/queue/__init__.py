"""The queue as a worker sees it, its two adapters, and this pod's place in the roster."""
