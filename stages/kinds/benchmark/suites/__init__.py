"""Suites of questions: where their items come from, and how answers are scored."""
