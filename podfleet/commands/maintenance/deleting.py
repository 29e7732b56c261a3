"""Deletes what a command names: shows what goes with it, asks, and deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from events.answers.access.keeping import Deletion, Tombstone
from podfleet.connection import EXIT_FAILED, fail
from podfleet.output import print_json, say, tell

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]


def delete(
    ids: Iterable[str],
    preview: Callable[[str], Deletion],
    order: Callable[[str], Tombstone],
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete each of these, after a yes. Ends the command where one is refused, or the answer is no."""
    shown = [preview(each) for each in ids]
    for each in shown:
        _show(each)
    refused = [each for each in shown if each.refusal is not None]
    if refused:
        fail(f"{refused[0].id} is not deleted: {refused[0].refusal}", EXIT_FAILED)
    if not yes and not typer.confirm("Delete all of that? It cannot be undone.", err=True):
        fail("nothing was deleted", EXIT_FAILED)
    deleted = [order(each.id) for each in shown]
    if as_json:
        print_json(deleted)
        return
    for stone in deleted:
        say(f"{stone.id} is deleted")


def _show(wanted: Deletion) -> None:
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in wanted.counts.items()]
    parts.append(f"{wanted.bytes:,} bytes of files")
    with_runs = f"{len(wanted.runs):,} runs, " if wanted.runs else ""
    tell(f"{wanted.id} {wanted.status}: {with_runs}{', '.join(parts)}")
    for words, names in (("repeated by", wanted.retries), ("waited for by", wanted.successors)):
        if names:
            tell(f"  {words} {', '.join(names)}, which stay")
