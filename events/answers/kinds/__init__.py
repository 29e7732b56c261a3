"""What the routes of kinds answer: what a kind is, and the nouns that one brings."""
