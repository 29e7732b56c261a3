"""What declarations of kinds are made of, and how they are loaded and called."""
