"""Measures how an engine answers under load: what is asked, when, and what the answers are worth."""
