"""`podfleet verify`: compares the database that MONGODB_URL names with its own event log."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from podfleet import database
from podfleet.connection import EXIT_FAILED, EXIT_UNREACHABLE, EXIT_WRONG_USE, fail
from podfleet.nouns import noun
from podfleet.output import clean

app = noun("verify", has_verbs=False)

PATIENCE_S: Final = 12.0  # longer than every loop of the control plane needs
STORAGE: Final = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")


@app.command()
def verify(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Also replay every log and compare the documents.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
    run: Annotated[str | None, typer.Option(help="Only this run.")] = None,
) -> None:
    """Check a database against its event log, read-only; exit status 1 if there are findings."""
    import asyncio

    from events.runtime.errors import ConfigError, Transient

    try:
        found = asyncio.run(_verify(database.variables(), rebuild=rebuild, as_json=as_json, run=run))
    except ConfigError as error:
        fail(error.message, EXIT_WRONG_USE)
    except Transient as error:
        fail(f"{error.message}; nothing was decided", EXIT_UNREACHABLE)
    raise typer.Exit(EXIT_FAILED if found else 0)


async def _verify(variables: Mapping[str, str], *, rebuild: bool, as_json: bool, run: str | None) -> int:
    from control_plane.config import read_storage
    from control_plane.files.blobs import open_blobs
    from control_plane.store.verify.queries import VerifyReads
    from control_plane.verify.verifier import Verifier

    has_storage = all(variables.get(name) for name in STORAGE)
    counts: Counter[str] = Counter()
    looked_at: Counter[str] = Counter()
    runs, latest = 0, None  # the findings of a run come together
    async with database.opened(variables, to="verify") as db:
        reads = VerifyReads(db)
        objects = open_blobs(read_storage(variables)) if has_storage else None
        auditor = Verifier(reads, objects, PATIENCE_S, lambda _: looked_at.update(["runs"]))
        if run is not None and await reads.collection_of(run) is None:
            fail(f"there is no run {run}", EXIT_FAILED)
        async for finding in auditor.audit(rebuilds=rebuild, only=run):
            _tell(finding.invariant, finding.run_id, finding.message, as_json=as_json)
            if not finding.is_note:
                counts[finding.invariant] += 1
                runs += finding.run_id != latest
                latest = finding.run_id
    if not has_storage:
        missing = ", ".join(name for name in STORAGE if not variables.get(name))
        print(f"artifacts in storage were not checked: {missing} not set", file=sys.stderr)
    total = sum(counts.values())
    each = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    where = f"in {runs} of {looked_at['runs']} runs: {each}" if each else f"in {looked_at['runs']} runs"
    print(f"{total} findings {where}", file=sys.stderr)
    return total


def _tell(invariant: str, run_id: str, message: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"invariant": invariant, "run": run_id, "message": message}), flush=True)
    else:
        print(clean(f"{invariant}  {run_id}  {message}"), flush=True)
