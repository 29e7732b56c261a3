"""What keeping and letting go costs those who work beside it."""
