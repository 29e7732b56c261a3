"""The checker: what a campaign left behind, held against the invariants."""
