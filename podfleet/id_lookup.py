"""Resolves the name of a run, hypothesis or task: a whole id, its unique beginning or end, or `@latest`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Final

import typer

from events.answers.kinds.hypotheses import HypothesisRow
from events.answers.kinds.tasks import TaskRow
from events.answers.runs import RunRow
from podfleet.client.endpoints import PAGE
from podfleet.client.synchronous import Client
from podfleet.connection import EXIT_FAILED, EXIT_WRONG_USE, client, fail
from podfleet.output import CUT, clean

LATEST: Final = "@latest"
ID_CHARS: Final = 26
LOOKED_AT_MAX: Final = 2_000
CANDIDATES_MAX: Final = 10
END_CHARS_MIN: Final = 4  # ids of one minute begin alike; they end as chance has it
COMPLETED_MAX: Final = 50


Item = RunRow | HypothesisRow | TaskRow


@dataclass(frozen=True, slots=True)
class Noun:
    """A type of object to search: its name, its plural, and its list, which may search by id."""

    name: str
    plural: str
    listed: Callable[[Client, str | None, int], Iterator[Item]]

    def title(self, item: Item) -> str:
        """Return a text that distinguishes an item from others of its kind."""
        status = None if isinstance(item, HypothesisRow) else item.status
        title = item.name if isinstance(item, TaskRow) else item.title
        return " ".join(str(each) for each in (status, title) if each)


RUN: Final = Noun("run", "runs", lambda control_plane, q, limit: control_plane.runs(q=q, limit=limit))
HYPOTHESIS: Final = Noun(
    "hypothesis", "hypotheses", lambda control_plane, _, limit: control_plane.hypotheses(limit=limit)
)

TASK: Final = Noun("task", "tasks", lambda control_plane, _, limit: control_plane.tasks(limit=limit))


class Unknown(Exception):
    """The name has no match, or several; the text lists the candidates."""


def find(control_plane: Client, noun: Noun, name: str) -> str:
    """Return the whole id that `name` names, or end the command."""
    name = name.strip().removeprefix(CUT)
    if name == LATEST:
        newest = next(noun.listed(control_plane, None, 1), None)
        if newest is None:
            fail(f"there is no {noun.name} yet; `podfleet --help` shows how to make one", EXIT_FAILED)
        return newest.id
    wanted = name.upper()
    if not (wanted.isascii() and wanted.isalnum()) or len(wanted) > ID_CHARS:
        message = f"{name!r} is no id of a {noun.name}; give an id, its beginning or end, or {LATEST}"
        fail(message, EXIT_WRONG_USE)
    if len(wanted) == ID_CHARS:
        return wanted
    known = noun.listed(control_plane, wanted, PAGE)
    ending = noun.listed(control_plane, None, PAGE) if len(wanted) >= END_CHARS_MIN else iter(())
    try:
        return meant(islice(known, LOOKED_AT_MAX), islice(ending, LOOKED_AT_MAX), noun, name)
    except Unknown as unknown:
        fail(str(unknown), EXIT_FAILED)


def meant(beginning: Iterable[Item], ending: Iterable[Item], noun: Noun, name: str) -> str:
    """Return the only id that begins so, else the only one that ends so.

    Raises `Unknown` with the candidates, where there are several.
    """
    wanted = name.upper()
    found = _some(each for each in beginning if each.id.startswith(wanted))
    found = found or _some(each for each in ending if each.id.endswith(wanted))
    if len(found) == 1:
        return found[0].id
    if not found:
        listing = f"`podfleet {noun.plural} list` shows those that there are"
        raise Unknown(f"there is no {noun.name} {clean(name)!r}; {listing}")
    lines = [f"  {each.id}  {clean(noun.title(each))[:80]}" for each in found[:CANDIDATES_MAX]]
    more = ["  …"] if len(found) > CANDIDATES_MAX else []
    head = f"{clean(name)!r} is the beginning or the end of several; give more of it:"
    raise Unknown("\n".join([head, *lines, *more]))


def _some(items: Iterator[Item]) -> list[Item]:
    return list(islice(items, CANDIDATES_MAX + 1))


def complete_run(incomplete: str) -> list[tuple[str, str]]:
    """Return the runs that a shell may offer; none without an answer of the control plane."""
    return _offered(RUN, incomplete)


def complete_hypothesis(incomplete: str) -> list[tuple[str, str]]:
    """Return the hypotheses that a shell may offer; none without an answer of the control plane."""
    return _offered(HYPOTHESIS, incomplete)


def complete_task(incomplete: str) -> list[tuple[str, str]]:
    """Return the tasks that a shell may offer; none without an answer of the control plane."""
    return _offered(TASK, incomplete)


def _offered(noun: Noun, incomplete: str) -> list[tuple[str, str]]:
    if incomplete.startswith("@"):
        return [(LATEST, f"the newest {noun.name}")]
    try:
        newest = noun.listed(client(), incomplete or None, COMPLETED_MAX)
        found = list(islice(newest, COMPLETED_MAX))
    except Exception:  # noqa: BLE001 - a shell that completes shows no errors
        return []
    wanted = incomplete.upper()
    return [(each.id, clean(noun.title(each))) for each in found if each.id.startswith(wanted)]


RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id, its unique beginning or end, or @latest.",
        autocompletion=complete_run,
    ),
]
RunNames = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="Runs: ids, their unique beginnings or ends, or @latest.",
        autocompletion=complete_run,
    ),
]
HypothesisName = Annotated[
    str,
    typer.Argument(
        metavar="HYPOTHESIS",
        help="A hypothesis' id, its unique beginning or end, or @latest.",
        autocompletion=complete_hypothesis,
    ),
]
TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="A task's id, its unique beginning or end, or @latest.",
        autocompletion=complete_task,
    ),
]
