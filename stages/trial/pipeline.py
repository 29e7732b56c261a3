"""Trials: serve a model with launch parameters, measure it under each load, and end the engine."""

from __future__ import annotations

from stages.context import Context


def run(context: Context) -> str:
    """Run a trial."""
    raise NotImplementedError
