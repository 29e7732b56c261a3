"""`podfleet storage`: what lies in the storage that the settings name, beside what the fleet knows of."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from podfleet import database
from podfleet.connection import EXIT_UNREACHABLE, EXIT_WRONG_USE, fail
from podfleet.nouns import noun
from podfleet.output import clean

app = noun("storage")

STORAGE: Final = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")


@app.command()
def orphans(
    remove: Annotated[bool, typer.Option("--remove", help="Remove them; the audit log says so.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """List the objects of attempts that nothing names any more, one key a line.

    Only what is older than eight days, of runs that ended as long ago or do not exist. After a restore of
    an older database look before you remove: files of the runs that it lacks are listed, too.
    """
    import asyncio

    from events.runtime.errors import ConfigError, Transient

    try:
        asyncio.run(_orphans(database.variables(), is_dry=not remove, as_json=as_json))
    except ConfigError as error:
        fail(error.message, EXIT_WRONG_USE)
    except Transient as error:
        fail(f"{error.message}; run it again", EXIT_UNREACHABLE)


async def _orphans(variables: Mapping[str, str], *, is_dry: bool, as_json: bool) -> None:
    from control_plane.config import read_storage
    from control_plane.files.blobs import open_blobs
    from control_plane.store.access.audit_log import AuditLog
    from control_plane.store.database import require_guarantees, stores_clock
    from control_plane.store.files.orphans import OrphanReads
    from control_plane.verify.orphan_objects import OrphanObjects
    from events.runtime.clock import SystemClock, SystemIds
    from events.runtime.errors import ConfigError

    if missing := [name for name in STORAGE if not variables.get(name)]:
        raise ConfigError([f"{name} is not set; it names the storage to look through" for name in missing])
    count = 0
    async with database.opened(variables, to="look through") as db:
        await require_guarantees(db.client)
        blobs = open_blobs(read_storage(variables))
        await blobs.measure()
        by = f"podfleet storage orphans ({getpass.getuser()})"
        clock = await stores_clock(db, SystemClock())
        looking = OrphanObjects(OrphanReads(db), blobs, AuditLog(db), clock, SystemIds(), by, is_dry)
        async for page in looking.found():
            for key in page:
                print(json.dumps({"key": key, "removed": not is_dry}) if as_json else clean(key), flush=True)
            count += len(page)
    print(f"{count:,} objects {'could be' if is_dry else 'were'} removed", file=sys.stderr)
