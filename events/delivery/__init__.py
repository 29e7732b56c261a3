"""How a worker's events reach the control plane: spool, lines, sender, client."""
