"""`podfleet archive`: a run that has ended as one file, which needs no fleet to be verified, and is imported.

Law: a file is written whole, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import to_builtins
from typer.core import TyperGroup

from events.answers.access.keeping import ArchivedRun
from events.files.archive.check import PIECE_BYTES, checked
from events.runtime.errors import Rejected
from podfleet.client import endpoints
from podfleet.client.call import Malformed
from podfleet.client.synchronous import Client
from podfleet.connection import EXIT_FAILED, client, fail
from podfleet.id_lookup import RUN, RunName, find
from podfleet.nouns import noun
from podfleet.output import AsJson, print_json, say, tell

EXPORT = "export"
IMPORT_S: Final = 3600.0  # an archive is read, checked and stored before the answer


class _Verbs(TyperGroup):
    """Takes what is no verb as the run to be archived."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [EXPORT, *args]
        return super().resolve_command(ctx, args)


app = noun("archive")
app.info.cls = _Verbs


@app.command(EXPORT)
def export(
    run: RunName,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="The file; default: the run's id and .tar.")
    ] = None,
    artifacts: Annotated[
        bool, typer.Option("--artifacts/--no-artifacts", help="With the content of its files.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a run that has ended into one file: documents, events, artifacts, and a manifest with hashes.

    The file is checked before it gets its name. `podfleet archive RUN` does the same.
    """
    control_plane = client()
    run_id = find(control_plane, RUN, run)
    target = Path(output or f"{run_id}.tar")
    if target.exists() and not force:
        fail(f"{target} is there already; --force replaces it", EXIT_FAILED)
    half = target.with_name(f"{target.name}.part")
    try:
        with half.open("wb") as file:
            for piece in control_plane.pieces(endpoints.archive_run(run_id, artifacts=artifacts)):
                file.write(piece)
        with half.open("rb") as file:
            found = checked(file)
        os.replace(half, target)
    except Rejected as error:
        fail(f"what came is no whole archive, {error.message}; try again", EXIT_FAILED)
    except OSError as error:
        fail(f"{target} cannot be written: {error.strerror or error}", EXIT_FAILED)
    finally:
        half.unlink(missing_ok=True)
    for words in (*found.findings, *found.notes):
        tell(words)
    say(str(target))


@app.command("import")
def import_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of `podfleet archive`.")],
    as_json: AsJson = False,
) -> None:
    """Import the run of another fleet, with its log and its files; it takes the scope admin.

    The file is checked here first, and again by the control plane, which takes all of it or nothing. It is a
    run like any other that has ended: shown, exported, deleted; never run, nor counted in time and money.
    """
    try:
        with open(file, "rb") as opened:
            found = checked(opened)
            if found.findings:
                fail(f"{file}: {found.findings[0]}", EXIT_FAILED)
            opened.seek(0)
            size = os.fstat(opened.fileno()).st_size
            run = _sent(client(), iter(partial(opened.read, PIECE_BYTES), b""), size)
    except Rejected as error:
        fail(f"{file}: {error.message}", EXIT_FAILED)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror or error}", EXIT_FAILED)
    if as_json:
        print_json(to_builtins(run))
    else:
        say(run.id)


def _sent(control_plane: Client, content: Iterator[bytes], size: int) -> ArchivedRun:
    """Send an archive of so many bytes, and wait until its run is there. Raises as `Client.ask`."""
    call = endpoints.import_archive()
    headers = {"Content-Type": "application/x-tar", "Content-Length": str(size)}
    with control_plane.sent(call, headers, timeout_s=IMPORT_S, content=content) as response:
        try:
            answer = control_plane.target.whole(response)
            return call.read(response.status_code, answer, response.headers.get("location"))
        except Malformed as error:
            raise control_plane.target.foreign(error) from error


@app.command()
def verify(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of `podfleet archive`.")],
    as_json: AsJson = False,
) -> None:
    """Verify an archive without a fleet: its form, each size and hash, the events, their order and roots.

    Exit status 1 where something is wrong. Who compares the printed roots with those of the fleet that ran
    it knows that the events are the same.
    """
    try:
        with open(file, "rb") as opened:
            found = checked(opened)
    except Rejected as error:
        fail(f"{file}: {error.message}", EXIT_FAILED)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror or error}", EXIT_FAILED)
    said = found.manifest
    if as_json:
        counts = {"documents": found.documents, "events": found.events, "artifacts": found.artifacts}
        told = {"findings": found.findings, "notes": found.notes, **counts}
        print_json({**told, "manifest": {**to_builtins(said), "members": len(said.members)}})
    else:
        for log in said.attempts:
            say(f"attempt {log.attempt}: {log.lines:,} events, the last is {log.last:,}, root {log.stored}")
        for words in found.notes:
            say(f"note: {words}")
        for words in found.findings:
            say(f"wrong: {words}")
    if found.findings:
        fail(f"{file}: {len(found.findings)} things are wrong", EXIT_FAILED)
    if not as_json:
        held = f"{found.documents:,} documents, {found.events:,} events, {found.artifacts:,} files"
        say(f"{file} is whole: run {said.run_id} ({said.kind}, {said.status}) of {said.fleet}; {held}")
