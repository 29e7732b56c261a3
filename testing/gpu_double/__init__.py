"""A double of the NVIDIA management library, of any number of cards."""
