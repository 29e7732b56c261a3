"""What keeps the process of a run from what is its worker's."""
