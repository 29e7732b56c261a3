"""Programs of other people that do what podfleet does, and what they need."""
