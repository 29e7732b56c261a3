"""`podfleet repair`: closes what the logs of the database that MONGODB_URL names have lost."""

from __future__ import annotations

import getpass
import json
import sys
from typing import Annotated

import typer

from podfleet import database
from podfleet.connection import EXIT_FAILED, EXIT_UNREACHABLE, EXIT_WRONG_USE, fail
from podfleet.nouns import noun
from podfleet.output import clean

app = noun("repair", has_verbs=False)


@app.command()
def repair(
    run: Annotated[str | None, typer.Argument(help="Only this run.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be closed, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Close gaps of event logs that nobody will fill any more, as after a restore of an older store.

    Each lost event is marked as that in the log, and later ones are applied; the run and the audit log say
    so. Exit status 1 if something was left.
    """
    import asyncio

    from events.runtime.errors import ConfigError, Transient

    try:
        left = asyncio.run(_repair(run, is_dry=dry_run, as_json=as_json))
    except ConfigError as error:
        fail(error.message, EXIT_WRONG_USE)
    except Transient as error:
        fail(f"{error.message}; run it again", EXIT_UNREACHABLE)
    raise typer.Exit(EXIT_FAILED if left else 0)


async def _repair(run: str | None, *, is_dry: bool, as_json: bool) -> int:
    from control_plane.log.journal_flush import JournalFlush
    from control_plane.log.projector import Projector
    from control_plane.store.access.audit_log import AuditLog
    from control_plane.store.database import require_guarantees, stores_clock
    from control_plane.store.log.documents import Documents
    from control_plane.store.log.events import Events
    from control_plane.store.queue.runs import Runs
    from control_plane.store.verify.queries import VerifyReads
    from control_plane.verify.log_repair import LogRepair
    from events.runtime.clock import SystemClock, SystemIds

    runs_read = closed = left = 0
    async with database.opened(database.variables(), to="repair") as db:
        await require_guarantees(db.client)
        clock, ids = await stores_clock(db, SystemClock()), SystemIds()
        runs, events, documents = Runs(db), Events(db), Documents(db)
        application = Projector(
            runs, events, documents, JournalFlush(events, documents, clock, ids), clock, ids
        )
        by = f"podfleet repair ({getpass.getuser()})"
        reads = VerifyReads(db)
        log_repair = LogRepair(reads, runs, events, application, AuditLog(db), clock, ids, by, is_dry)
        if run is not None and await reads.collection_of(run) is None:
            fail(f"there is no run {run}", EXIT_FAILED)
        async for collection, run_id in reads.run_ids(run):
            found = await log_repair.close(collection, run_id)
            for each in found.done:
                _tell("would close" if is_dry else "closed", run_id, str(each), as_json=as_json)
            for words in found.left:
                _tell("left", run_id, words, as_json=as_json)
            runs_read += 1
            closed += len(found.done)
            left += len(found.left)
    done = f"{closed} {'would be ' if is_dry else ''}closed"
    print(f"{runs_read:,} runs looked at, {done}, {left} left", file=sys.stderr)
    return left


def _tell(result: str, run_id: str, message: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"result": result, "run": run_id, "message": message}), flush=True)
    else:
        print(clean(f"{result}  {run_id}  {message}"), flush=True)
