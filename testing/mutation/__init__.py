"""How many small faults, planted in a module, its tests see; for maintainers, no part of the gate."""
