"""Answers ideation requests: says that this version has no researcher that could."""

from __future__ import annotations

from events.catalog import IdeationFailed, IdeationStarted
from events.errors import PipelineError
from stages.context import Context

CODE = "NOT_AVAILABLE"
REASON = (
    "this version of podfleet finds no ideas by itself; "
    "submit the hypothesis again with enable_ideation=false, and its own text is run"
)


def run(context: Context) -> str:
    """End the request with the code NOT_AVAILABLE and its reason."""
    context.emit(IdeationStarted())
    context.emit(IdeationFailed(code=CODE, message=REASON))
    raise PipelineError(CODE, REASON)
