"""`podfleet rebuild`: makes documents anew from the log of the database that MONGODB_URL names."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from podfleet import database
from podfleet.connection import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNREACHABLE, EXIT_WRONG_USE, fail
from podfleet.nouns import noun
from podfleet.output import clean

app = noun("rebuild", has_verbs=False)

PATIENCE_S: Final = 12.0  # longer than every loop of the control plane needs
TOLD_EVERY: Final = 1_000  # runs


@dataclass(frozen=True)
class Wish:
    """Which runs are rebuilt, and how the result is printed."""

    run: str | None
    kind: str | None
    after: str
    is_dry: bool
    as_json: bool


@dataclass
class Progress:
    """The progress of the rebuild; `latest` is the last run that was read."""

    latest: str = ""
    counts: Counter[str] = field(default_factory=Counter)


@app.command()
def rebuild(
    run: Annotated[str | None, typer.Argument(help="Only this run.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only runs of this kind.")] = None,
    after: Annotated[str, typer.Option(help="Continue after this run.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be written, without writing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Rebuild the documents of runs from their events, on a live fleet; exit status 1 if some failed."""
    import asyncio

    from events.runtime.errors import ConfigError, Rejected, Transient

    wish, progress = Wish(run, kind, after, dry_run, as_json), Progress(after)
    if run is not None and (kind or after):
        fail("name a run, or use --kind and --after: not both", EXIT_WRONG_USE)
    try:
        asyncio.run(_rebuild(wish, progress))
    except (ConfigError, Rejected) as error:
        fail(error.message, EXIT_WRONG_USE)
    except Transient as error:
        _tell_progress(wish, progress)
        fail(f"{error.message}\n{_going_on(wish, progress)}", EXIT_UNREACHABLE)
    except KeyboardInterrupt:
        _tell_progress(wish, progress)
        fail(_going_on(wish, progress), EXIT_INTERRUPTED)
    _tell_progress(wish, progress)
    is_changed = wish.is_dry and progress.counts["rebuilt"]
    raise typer.Exit(EXIT_FAILED if progress.counts["left"] or is_changed else 0)


async def _rebuild(wish: Wish, progress: Progress) -> None:
    from control_plane.log.journal_flush import JournalFlush
    from control_plane.log.projector import Projector
    from control_plane.store.database import require_guarantees, stores_clock
    from control_plane.store.log.documents import Documents
    from control_plane.store.log.events import Events
    from control_plane.store.queue.runs import Runs
    from control_plane.store.verify.queries import VerifyReads
    from control_plane.store.verify.repairs import Repairs
    from control_plane.verify.rebuilder import Rebuilder
    from events.kinds import kind_of
    from events.runtime.clock import SystemClock, SystemIds

    if wish.kind is not None:
        kind_of(wish.kind)
    async with database.opened(database.variables(), to="rebuild") as db:
        await require_guarantees(db.client)
        clock, ids = await stores_clock(db, SystemClock()), SystemIds()
        runs, events, documents = Runs(db), Events(db), Documents(db)
        flush = JournalFlush(events, documents, clock, ids)
        application = Projector(runs, events, documents, flush, clock, ids)
        reads = VerifyReads(db)
        rebuilder = Rebuilder(reads, Repairs(db), application, PATIENCE_S, wish.is_dry)
        wanted = reads.in_order(wish.kind, wish.after) if wish.run is None else _one(wish.run, reads)
        async for collection, run_id in wanted:
            result = await rebuilder.rebuild(collection, run_id)
            _tell(wish, run_id, "would rebuild" if wish.is_dry else "rebuilt", result.done)
            _tell(wish, run_id, "left", result.left)
            progress.counts.update(runs=1, rebuilt=bool(result.done), left=bool(result.left))
            progress.latest = run_id
            if progress.counts["runs"] % TOLD_EVERY == 0:
                _tell_progress(wish, progress)


async def _one(run_id: str, reads: Any) -> AsyncIterator[tuple[str, str]]:
    collection = await reads.collection_of(run_id)
    if collection is None:
        fail(f"there is no run {run_id}", EXIT_FAILED)
    yield collection, run_id


def _tell(wish: Wish, run_id: str, what: str, messages: Iterable[str]) -> None:
    for message in messages:
        if wish.as_json:
            print(json.dumps({"result": what, "run": run_id, "message": message}), flush=True)
        else:
            print(clean(f"{what}  {run_id}  {message}"), flush=True)


def _tell_progress(wish: Wish, progress: Progress) -> None:
    counts = progress.counts
    rebuilt = f"{counts['rebuilt']:,} {'would be ' if wish.is_dry else ''}rebuilt"
    summary = f"{counts['runs']:,} runs looked at, {rebuilt}, {counts['left']:,} not as their logs tell"
    where = f"; the last one was {progress.latest}" if progress.latest else ""
    print(clean(summary + where), file=sys.stderr, flush=True)


def _going_on(wish: Wish, progress: Progress) -> str:
    """Return the command that continues an interrupted rebuild."""
    words = ["podfleet", "rebuild"]
    words += [] if wish.run is None else [wish.run]
    words += [] if wish.kind is None else ["--kind", wish.kind]
    words += ["--after", progress.latest] if progress.latest and wish.run is None else []
    words += ["--dry-run"] if wish.is_dry else []
    words += ["--json"] if wish.as_json else []
    return f"to go on: {shlex.join(words)}"
