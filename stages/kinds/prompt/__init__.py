"""Prompts: an engine answers, its text is shown as it comes, and each answer is timed."""
