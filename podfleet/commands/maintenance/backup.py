"""`podfleet backup`: copies the database that MONGODB_URL names, and its files, into a folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from podfleet import database
from podfleet.connection import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNREACHABLE, EXIT_WRONG_USE, fail
from podfleet.nouns import noun
from podfleet.output import clean

app = noun("backup", has_verbs=False)

Storage = Literal["copy", "reference", "none"]
MINIO: Final = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
NICE: Final = 15  # claims have the processor first where a database shares it
NOT_IN_IT: Final = (
    "not in it: the key for secrets (PODFLEET_SECRETS_KEY): without it the secrets stay encrypted"
)


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="The folder; what it has of an earlier backup is reused.")],
    storage: Annotated[
        Storage, typer.Option(help="Copy the files of runs, only list them, or leave them out.")
    ] = "copy",
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt with PODFLEET_BACKUP_PASSPHRASE or …_FILE.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Data folder of a fleet on this machine that stands still.")
    ] = None,
) -> None:
    """Back up a database and its files while the fleet works; the latest backup of a folder counts."""
    import asyncio
    import os

    from events.runtime.errors import ConfigError, Rejected, Transient

    try:
        os.nice(NICE)
        if data is None:
            missing = asyncio.run(_backup(database.variables(), folder, storage, encrypts=encrypt))
        else:
            with database.served(data) as settings:
                missing = asyncio.run(_backup(settings, folder, storage, encrypts=encrypt))
    except (ConfigError, Rejected) as error:
        fail(error.message, EXIT_WRONG_USE)
    except Transient as error:
        fail(f"{error.message}; there is no new backup: call it again", EXIT_UNREACHABLE)
    except OSError as error:
        fail(f"{folder} cannot be written: {error.strerror}; there is no new backup", EXIT_FAILED)
    except KeyboardInterrupt:
        fail(
            "there is no new backup: call it again, and what was copied is not copied again", EXIT_INTERRUPTED
        )
    raise typer.Exit(EXIT_FAILED if missing else 0)


async def _backup(settings: Mapping[str, str], path: Path, storage: Storage, *, encrypts: bool) -> int:
    from importlib.metadata import version

    from control_plane.config import read_passphrase, read_storage
    from control_plane.files.blobs import open_blobs
    from control_plane.store import state
    from control_plane.store.verify.dumps import Dumps
    from control_plane.upkeep.backup.backup import Backup
    from control_plane.upkeep.backup.folder import Folder
    from events.runtime.clock import SystemClock, SystemIds
    from events.runtime.errors import ConfigError

    lacking = [name for name in MINIO if not settings.get(name)]
    if storage != "none" and lacking:
        raise ConfigError([f"{', '.join(lacking)} not set: set them, or leave files out by --storage none"])
    passphrase = read_passphrase(settings) if encrypts else None
    if encrypts and passphrase is None:
        raise ConfigError(["--encrypt needs PODFLEET_BACKUP_PASSPHRASE_FILE, or PODFLEET_BACKUP_PASSPHRASE"])
    async with database.opened(settings, to="back up") as db:
        await state.require(db)
        work = Backup(
            Dumps(db),
            None if storage == "none" else open_blobs(read_storage(settings)),
            Folder.begun(path, passphrase),
            SystemClock(),
            SystemIds(),
            database=db.name,
            program=version("podfleet"),
            schema=await state.version(db),
            storage=storage,
            say=_say,
        )
        if work.blobs is not None:
            await work.blobs.measure()
        made, tally = await work.run_once()
    documents = sum(each.documents for each in made.collections.values())
    _say(f"backup {made.id}: {documents:,} documents, and {made.changes.documents:,} changes meanwhile")
    counts = tally.counts
    if storage != "none":
        _say(f"{counts['objects']:,} objects, {counts['copied']:,} copied, {counts['kept']:,} here already")
    for each in tally.examples:
        _say(each)
    if counts["missing"]:
        _say(f"{counts['missing']:,} objects that documents name were not in the storage")
    _say(NOT_IN_IT)
    return counts["missing"]


def _say(text: str) -> None:
    print(clean(text), file=sys.stderr, flush=True)
