"""Scores an answer by the scorer of its suite."""

from __future__ import annotations

from stages.benchmark.suites.item import Item, Score, Scoring, Suite


def score(suite: Suite, item: Item, answer: str, scoring: Scoring) -> Score:
    """Return what an answer is worth. Raises only what a model, or the sandbox, raises for the whole run."""
    return suite.scorer(item, answer, scoring)
