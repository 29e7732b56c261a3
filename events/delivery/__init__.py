"""Delivery of a worker's events to the control plane: outbox, lines, sender, client."""
