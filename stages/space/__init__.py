"""The declared space: what the built-in researcher can change, measure and measure it on; pure, no array library."""
