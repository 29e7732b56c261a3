"""How ideation shows: hypotheses, the ideas that were found for them, and the runs made of them."""
