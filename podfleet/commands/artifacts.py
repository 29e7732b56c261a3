"""`podfleet artifacts`: lists and downloads the files of a run.

Law: a file is written whole and with the registered digest, or not at all. A name never leads out of the
target folder.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from events.answers.artifacts import Artifact
from events.files.paths import BadPath, RunPath
from podfleet.client.problems import Refused
from podfleet.client.synchronous import Client
from podfleet.client.transport import is_loopback
from podfleet.connection import EXIT_FAILED, EXIT_WRONG_USE, client, fail
from podfleet.id_lookup import RUN, RunName, find
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, ago, field, print_items, print_json, say, tell

app = noun("artifacts")

CHECKPOINTS: Final = "checkpoints/"
PIECE_BYTES: Final = 256 * 1024
ANSWER_S: Final = 60.0
# The control plane reads a large file before it hands it out, and is asked again every ten seconds.
UNREAD: Final = "object_unread"
# Says something of one file, and nothing of the others.
WITHHELD: Final = frozenset({"object_unfit", UNREAD, "unknown_artifact", "bad_key"})
CHECKS_MAX: Final = 360


class Unkept(Exception):
    """A file cannot be kept; the text is the reason, and a remedy."""


def _size(value: float) -> str:
    from events.formatting import size

    return size(value)


COLUMNS: Final = (
    Column("NAME", field("name")),
    Column("SIZE", field("size"), _size, is_whole=True, is_right=True),
    Column("TYPE", field("content_type"), is_spare=True),
    Column("STAGE", field("stage"), is_spare=True),
    Column("ATTEMPT", field("attempt"), is_whole=True, is_right=True),
    Column("REGISTERED", field("registered_at"), ago, is_whole=True, is_spare=True),
    Column("SHA256", field("sha256"), lambda digest: digest[:12], is_whole=True),
    Column("ID", field("id"), is_spare=True),
)

Attempt = Annotated[
    int | None, typer.Option("--attempt", min=1, help="Files of this attempt instead of the latest.")
]
Checkpoints = Annotated[bool, typer.Option("--checkpoints", help="Include checkpoints.")]


@app.command("list")
def list_artifacts(
    run: RunName, attempt: Attempt = None, checkpoints: Checkpoints = False, as_json: AsJson = False
) -> None:
    """List the files of a run, the latest of each name."""
    control_plane = client()
    found = kept(control_plane, find(control_plane, RUN, run), attempt, checkpoints=checkpoints)
    print_items(found, COLUMNS, as_json=as_json, none="no files; --checkpoints shows what attempts leave")


@app.command()
def get(
    run: RunName,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names or patterns such as '*.png'; default: every file."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Folder (default: the run's id), or the path of a single file."),
    ] = None,
    attempt: Attempt = None,
    checkpoints: Checkpoints = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files that differ.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download files of a run, and check their digests."""
    control_plane = client()
    run_id = find(control_plane, RUN, run)
    has_asked = bool(names) and any(name.startswith(CHECKPOINTS) for name in names or ())
    known = kept(control_plane, run_id, attempt, checkpoints=checkpoints or has_asked)
    try:
        chosen = wanted(known, names or ())
    except Unkept as error:
        fail(f"{error}; `podfleet artifacts list {run_id}` shows what there is", EXIT_FAILED)
    place, is_file = Path(output or run_id), _is_file(chosen, names or (), output)
    done, problems = [], []
    for artifact in chosen:
        try:
            target = place if is_file else inside(place, artifact.name)
            state = _fetch(control_plane, artifact, target, force=force)
        except Unkept as error:
            problems.append(str(error))
            tell(str(error))
            continue
        done.append({"name": artifact.name, "path": str(target), "state": state, "sha256": artifact.sha256})
        if not as_json:
            say(f"{target}" if state == "fetched" else f"{target} (unchanged)")
    if as_json:
        print_json(done)
    if problems:
        fail(f"{len(problems)} of {len(chosen)} files could not be kept", EXIT_FAILED)


def kept(control_plane: Client, run_id: str, attempt: int | None, *, checkpoints: bool) -> list[Artifact]:
    """Return the files of a run, of each name the latest attempt's, by name."""
    latest: dict[str, Artifact] = {}
    for artifact in control_plane.artifacts(run_id):
        is_wanted = checkpoints or not artifact.name.startswith(CHECKPOINTS)
        if is_wanted and attempt in (None, artifact.attempt):
            latest.setdefault(artifact.name, artifact)
    return [latest[name] for name in sorted(latest)]


def wanted(known: Sequence[Artifact], names: Iterable[str]) -> list[Artifact]:
    """Return the files that the names and patterns mean. Raises `Unkept` for one that means none."""
    if not names:
        if not known:
            raise Unkept("the run keeps no files")
        return list(known)
    chosen: dict[str, Artifact] = {}
    for name in names:
        found = [each for each in known if each.name == name]
        found = found or [each for each in known if fnmatchcase(each.name, name)]
        if not found:
            raise Unkept(f"the run keeps no file {name!r}")
        chosen |= {each.name: each for each in found}
    return list(chosen.values())


def inside(folder: Path, name: str) -> Path:
    """Return the path of `name` in `folder`. Raises `Unkept` for a name that leads anywhere else."""
    try:
        path = folder / RunPath(name)
    except BadPath as error:
        raise Unkept(f"{error}; it was not written") from error
    # A link that lies in the folder may lead out of it.
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise Unkept(f"{path} leads out of {folder}; it was not written")
    return path


def _is_file(chosen: Sequence[Artifact], names: Sequence[str], output: str | None) -> bool:
    """Return whether `output` is the path of the only file, rather than a folder."""
    if output is None or output.endswith(os.sep) or Path(output).is_dir():
        return False
    return len(chosen) == 1 and list(names) == [chosen[0].name]


def _fetch(control_plane: Client, artifact: Artifact, target: Path, *, force: bool) -> str:
    """Put a file in its place; `unchanged` where it lies there already. Raises `Unkept`."""
    if target.is_dir():
        raise Unkept(f"{target} is a folder; choose another --output")
    if target.exists() and _digest(target) == artifact.sha256:
        return "unchanged"
    if target.exists() and not force:
        raise Unkept(f"{target} is there already and holds something else; --force replaces it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, half = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".part"
        )
    except OSError as error:
        raise Unkept(f"{target} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            _download(control_plane, artifact, file)
        os.chmod(half, 0o666 & ~_umask())
        os.replace(half, target)
    except OSError as error:
        raise Unkept(f"{target} cannot be written: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(half)
    return "fetched"


def _download(control_plane: Client, artifact: Artifact, file: Any) -> None:
    """Write the content of an artifact, whole and as it was registered. Raises `Unkept`."""
    import httpx

    name, digest, size = artifact.name, hashlib.sha256(), 0
    url = _address(control_plane, artifact)
    try:
        # Without our key: the address itself is the permission, and the storage is another server.
        with httpx.stream("GET", url, timeout=ANSWER_S, trust_env=not is_loopback(url)) as response:
            if response.status_code != httpx.codes.OK:
                raise Unkept(f"{name}: the storage answers {response.status_code}; try again")
            for piece in response.iter_raw(PIECE_BYTES):
                size += len(piece)
                if size > artifact.size:
                    break
                digest.update(piece)
                file.write(piece)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        where = url.partition("?")[0]
        raise Unkept(
            f"{name}: the storage at {where} broke off ({type(error).__name__}); try again"
        ) from error
    if size != artifact.size or digest.hexdigest() != artifact.sha256:
        raise Unkept(
            f"{name}: the storage holds other bytes than were registered; `podfleet verify` looks closer"
        )


def _address(control_plane: Client, artifact: Artifact) -> str:
    """Return the signed address of an artifact's content, once it was checked. Raises `Unkept`."""
    location = None
    tries = 0
    while location is None:
        tries += 1
        try:
            location = control_plane.artifact_address(artifact.id).location
        except Refused as error:
            if error.code not in WITHHELD:
                raise
            if error.code != UNREAD or tries == CHECKS_MAX:
                raise Unkept(error.detail) from error
            tell(error.detail)
    if not location.startswith(("http://", "https://")):
        fail(f"the control plane names no address of the file, but {location!r}", EXIT_WRONG_USE)
    return location


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
