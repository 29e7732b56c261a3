"""What a run does: one folder per pipeline, everything reached through its context."""
