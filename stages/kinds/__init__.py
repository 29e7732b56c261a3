"""What each kind of run does."""
