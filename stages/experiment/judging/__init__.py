"""What stands between a generated program and its score: what it is shown, and what is taken from it."""
