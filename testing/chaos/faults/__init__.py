"""Which faults strike when, and what injects them."""
