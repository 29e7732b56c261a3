"""Decides which tabs the page of a run has, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.server.web.sections import Placed
from events.answers.runs import RunRow
from events.formatting import words
from events.kinds import KINDS
from events.lifecycle import Status

OVERVIEW: Final = "overview"
RESULTS: Final = "results"
METRICS: Final = "metrics"
VALIDATION: Final = "validation"
LOG: Final = "log"
FILES: Final = "files"
ATTEMPTS: Final = "attempts"
SPEC: Final = "spec"
FIRST: Final = (OVERVIEW, RESULTS, METRICS)
LAST: Final = (VALIDATION, LOG, FILES, ATTEMPTS, SPEC)
OF_EVERY_RUN: Final = frozenset((*FIRST, *LAST))
_ANCHORS: Final = {FILES: ("checkpoints",), SPEC: ("specification",), LOG: ("e-",)}


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab: its name, its title, what follows the address of the run, and the anchors that it has."""

    name: str
    title: str
    path: str
    anchors: Sequence[str] = ()


def tabs_of(run: RunRow, placed: Sequence[Placed]) -> list[Tab]:
    """Return the tabs of a run in their order; `placed` are the sections of its kind and of every kind."""
    own = list(dict.fromkeys(each.tab for each in placed if each.tab not in OF_EVERY_RUN))
    names = [*(name for name in FIRST if name != RESULTS or _has_results(run)), *own]
    names += [name for name in LAST if name != VALIDATION or _is_judged(run, placed)]
    return [_tab(name, placed) for name in names]


def _tab(name: str, placed: Sequence[Placed]) -> Tab:
    anchors = [each for one in placed if one.tab == name for each in one.section.anchors]
    path = "" if name == OVERVIEW else f"/{name}" if name in OF_EVERY_RUN else f"/kind/{name}"
    return Tab(name, words(name), path, [*_ANCHORS.get(name, ()), *anchors])


def _has_results(run: RunRow) -> bool:
    """Say whether a run may have results: its kind has sets of them, or it has summed some up."""
    kind = KINDS.get(run.kind)
    return bool((kind is not None and (kind.results or kind.records_freely)) or run.summary)


def _is_judged(run: RunRow, placed: Sequence[Placed]) -> bool:
    """Say whether a run is judged, or its kind says more beside verdicts."""
    has_own = any(each.tab == VALIDATION and each.is_of_kind for each in placed)
    return has_own or bool(run.validation) or bool(run.human_verdict) or run.status == Status.AWAITING_HUMAN
