"""`podfleet restore`: brings a backup into the database that MONGODB_URL names, and into its storage."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from podfleet import database
from podfleet.connection import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNREACHABLE, EXIT_WRONG_USE, fail
from podfleet.nouns import noun
from podfleet.output import clean

if TYPE_CHECKING:
    from control_plane.store.database import Database

app = noun("restore", has_verbs=False)

STORAGE: Final = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
LOOKS: Final = 2  # the first one only sees where each run stands
NEVER_S: Final = 100 * 365 * 86_400.0  # a pod may still have what a log lacks: no log is given up here
PATIENCE_S: Final = 12.0  # longer than every loop of the control plane needs
TOLD_MAX: Final = 20
AGAIN: Final = "control planes refuse the database until it is restored: call it again"
KEY: Final = "secrets are readable with the PODFLEET_SECRETS_KEY of the fleet that was backed up alone"


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="The folder that `podfleet backup` wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop the documents that the database has; asks before.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Data folder of a fleet on this machine that stands still.")
    ] = None,
) -> None:
    """Restore a backup into an empty database, and check it; exit status 1 if something is not as it was."""
    import asyncio

    from events.runtime.errors import ConfigError, Conflict, Rejected, Transient

    if replace and not yes:
        typer.confirm("Drop all documents of the database, and restore the backup?", abort=True)
    try:
        if data is None:
            found = asyncio.run(_restore(database.variables(), folder, replaces=replace))
        else:
            with database.served(data) as settings:
                found = asyncio.run(_restore(settings, folder, replaces=replace))
    except (ConfigError, Conflict, Rejected) as error:
        fail(error.message, EXIT_WRONG_USE)
    except Transient as error:
        fail(f"{error.message}; {AGAIN}", EXIT_UNREACHABLE)
    except OSError as error:
        fail(f"{folder} cannot be read: {error.strerror}", EXIT_FAILED)
    except KeyboardInterrupt:
        fail(AGAIN, EXIT_INTERRUPTED)
    raise typer.Exit(EXIT_FAILED if found else 0)


async def _restore(settings: Mapping[str, str], path: Path, *, replaces: bool) -> int:
    from control_plane.config import read_passphrase, read_storage
    from control_plane.files.blobs import open_blobs
    from control_plane.store.database import require_guarantees
    from control_plane.store.verify.dumps import Dumps
    from control_plane.upkeep.backup.folder import Folder
    from control_plane.upkeep.backup.restore import Restore
    from events.runtime.clock import SystemClock

    has_storage = all(settings.get(name) for name in STORAGE)
    kept = Folder.of(path, read_passphrase(settings))
    async with database.opened(settings, to="restore into") as db:
        await require_guarantees(db.client)
        blobs = open_blobs(read_storage(settings)) if has_storage else None
        if blobs is not None:
            await blobs.prepare()
        made, tally = await Restore(db, Dumps(db), blobs, kept, SystemClock(), replaces).run_once()
        documents = sum(each.documents for each in made.collections.values())
        _say(
            f"restored {made.id} of {made.ended_at}: {documents:,} documents, "
            f"{made.changes.documents:,} changes"
        )
        put, present = tally.counts["put"], tally.counts["present"]
        _say(f"{tally.counts['objects']:,} objects: {put:,} put into the storage, {present:,} there already")
        for each in tally.examples:
            _say(each)
        await catch_up(db)
        findings = await _verified(db, blobs)
    _say(KEY)
    return findings + tally.counts["missing"] + tally.counts["changed"]


async def catch_up(db: Database) -> None:
    """Apply what the log had at the backup's moment and the documents not yet, as a control plane does."""
    from control_plane.log.catch_up import CatchUp
    from control_plane.log.journal_flush import JournalFlush
    from control_plane.log.projector import Projector
    from control_plane.log.unclaimed_lines import UnclaimedLines
    from control_plane.store.database import stores_clock
    from control_plane.store.log.documents import Documents
    from control_plane.store.log.events import Events
    from control_plane.store.log.unclaimed_lines import UnclaimedStore
    from control_plane.store.queue.runs import Runs
    from events.runtime.clock import SystemClock, SystemIds

    clock, ids = await stores_clock(db, SystemClock()), SystemIds()
    runs, events, documents = Runs(db), Events(db), Documents(db)
    projector = Projector(runs, events, documents, JournalFlush(events, documents, clock, ids), clock, ids)
    unclaimed = UnclaimedLines(UnclaimedStore(db), runs, events, documents, clock, ids)
    catch_up = CatchUp(runs, events, unclaimed, projector, log_grace_s=NEVER_S)
    for _ in range(LOOKS):
        await catch_up.run_once()


async def _verified(db: object, blobs: object) -> int:
    """Compare the documents with the log; tell the findings, and return how many."""
    from control_plane.store.verify.queries import VerifyReads
    from control_plane.verify.verifier import Verifier

    count = 0
    auditor = Verifier(VerifyReads(db), blobs, PATIENCE_S)  # type: ignore[arg-type]
    async for finding in auditor.audit(rebuilds=True):
        if not finding.is_note:
            count += 1
            if count <= TOLD_MAX:
                _say(f"{finding.invariant}  {finding.run_id}  {finding.message}")
    _say(f"{count:,} findings" + ("; `podfleet verify --rebuild` names all" if count > TOLD_MAX else ""))
    return count


def _say(text: str) -> None:
    print(clean(text), file=sys.stderr, flush=True)
