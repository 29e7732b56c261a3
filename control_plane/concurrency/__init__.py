"""What requests at the same time share: a cache, one flight, one batch, a rate, a loop."""
