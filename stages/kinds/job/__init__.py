"""Jobs: a person's own program, from its start to the proof of its end."""
