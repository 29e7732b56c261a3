"""A run and what belongs to it as answers, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from control_plane.model.presentation import SPENT, finite
from control_plane.model.views.document_mapping import from_document, stored_names
from events.answers.artifacts import Artifact
from events.answers.attempts import Attempt, Stage
from events.answers.logs import LoggedEvent
from events.answers.runs import ModelUsage, RunRow, Usage
from events.lifecycle import HELD
from events.text.truncation import brief_fields

Document = Mapping[str, Any]

MODELS_SHOWN: Final = 50
INTERRUPTED: Final = "INTERRUPTED"
# Of an attempt whose end is decided, and not written beside its run yet.
UNSAID_OF_ATTEMPT: Final[Document] = dict.fromkeys(
    (
        "pod",
        "claimedAt",
        "outcome",
        "code",
        "message",
        "fault",
        "endedAt",
        "startedAt",
        "currentStage",
        "error",
    )
)


def run_row(document: Document) -> RunRow:
    """Return a run as a list shows it, each of its fields brief."""
    return from_document(RunRow, brief_fields(document))


def attempt(document: Document) -> Attempt:
    """Return an attempt beside its run."""
    return from_document(Attempt, {**UNSAID_OF_ATTEMPT, **document})


def stage(document: Document, run: Document) -> Stage:
    """Return a stage of a run; one that was under way when its attempt was lost is no longer RUNNING."""
    is_current = document["attempt"] == run["attempt"] and (run["status"] in HELD or run["logOpen"])
    is_lost = document["status"] == "RUNNING" and not is_current
    complete = {"progress": 0.0, **document}  # a pod may leave out that a stage began
    return from_document(Stage, complete, status=INTERRUPTED if is_lost else document["status"])


def artifact(document: Document) -> Artifact:
    """Return a file that a run keeps, each of its fields brief."""
    return from_document(Artifact, brief_fields(document))


def logged(document: Document) -> LoggedEvent:
    """Return a stored event in the form in which the log shows it."""
    return from_document(LoggedEvent, document, id=document["ceId"])


def usage(groups: Sequence[Document], events_max: int) -> Usage:
    """Return what runs have spent, in all and by model; `is_partial` where more was said than was read."""
    names = {field: name for field, name in stored_names(ModelUsage).items() if name in SPENT}
    by_model = [
        ModelUsage(model=each["_id"], **{field: finite(each[name]) for field, name in names.items()})
        for each in groups
        if each["calls"]
    ]
    return Usage(
        **{field: finite(sum(each[name] for each in groups)) for field, name in names.items()},
        models=by_model[:MODELS_SHOWN],
        is_partial=sum(each["events"] for each in groups) >= events_max,
    )
