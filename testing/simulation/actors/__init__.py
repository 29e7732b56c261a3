"""Who acts in a history: pods, control planes, users, a stranger."""
