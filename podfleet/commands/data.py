"""`podfleet data`: pushes folders as versions of data sets, lists, pulls and removes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from events.answers.kinds.trees import DataSet, FileTree
from events.formatting import size
from events.runtime.clock import SystemClock
from events.runtime.errors import Rejected, Transient
from podfleet.client.synchronous import Client
from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import EXIT_FAILED, EXIT_UNREACHABLE, EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_fields, print_items, print_json, say

app = noun("data")

PROGRESS_S: Final = 1.0

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name: a-z, 0-9, . _ and -.")]
Version = Annotated[
    str, typer.Argument(metavar="NAME[/VERSION]", help="Its name, and a version if not the latest.")
]
Patterns = list[str] | None

COLUMNS: Final = (
    Column("ID", field("id"), is_whole=True),
    Column("SIZE", field("size"), size, is_whole=True, is_right=True),
    Column("FILES", field("files"), is_whole=True, is_right=True),
    Column("PUSHED", field("created_at"), ago, is_whole=True),
    Column("BY", field("created_by")),
    Column("TREE", field("tree"), is_spare=True),
)


@app.command()
def push(
    name: Name,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder.")],
    include: Annotated[
        Patterns, typer.Option("--include", metavar="PATTERN", help="Add what git ignores; repeatable.")
    ] = None,
    exclude: Annotated[
        Patterns, typer.Option("--exclude", metavar="PATTERN", help="Leave out; repeatable.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Send what the storage has lost, though it had the tree.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Push a folder as the next version of a data set: what git would take, else all of it.

    Patterns are those of .gitignore; .podfleetignore in the folder leaves files out.
    """
    control_plane = client()
    pushed = push_folder(control_plane, folder, include or (), exclude or (), is_checked=check)
    added = control_plane.add_data_set(name, pushed.id)
    if as_json:
        print_json(added)
    else:
        say(f"{added.id} has {added.files:,} files of {size(added.size)}")


def push_folder(
    control_plane: Client,
    folder: Path,
    include: Sequence[str],
    exclude: Sequence[str],
    *,
    bytes_max: int | None = None,
    is_checked: bool = False,
    is_glanced: bool = False,
) -> FileTree:
    """Push the tree of a folder, and return it. Ends the command where that cannot be."""
    from events.files.trees import TREE_BYTES_MAX
    from podfleet.client.trees.listing import Unpackable
    from podfleet.client.trees.packing import pack
    from podfleet.client.trees.pushing import Push, Unpushed

    told, most = _progress("hashed"), bytes_max or TREE_BYTES_MAX
    try:
        packed = pack(folder, include=include, exclude=exclude, bytes_max=most, told=told)
        return Push(control_plane, SystemClock(), _progress("pushed")).run(
            packed, is_checked=is_checked, is_glanced=is_glanced
        )
    except Unpackable as error:
        fail(str(error), EXIT_WRONG_USE)
    except Unpushed as error:
        fail(str(error), EXIT_UNREACHABLE)


@app.command("list")
def list_data(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Versions of this one only.")] = None,
    limit: Limit = SHOWN,
    ids_only: IdsOnly = False,
    as_json: AsJson = False,
) -> None:
    """List the versions of data sets by name, the newest of each first."""
    found = list(islice(client().data_sets(name=name, limit=min(limit, 200)), limit))
    print_items(
        found, COLUMNS, as_json=as_json, ids_only=ids_only, none="none yet: `podfleet data push NAME DIR`"
    )


@app.command()
def show(version: Version, as_json: AsJson = False) -> None:
    """Show a version of a data set."""
    found = version_of(client(), version)
    if as_json:
        print_json(found)
        return
    print_fields(
        [
            ("id", found.id),
            ("size", size(found.size)),
            ("files", f"{found.files:,}"),
            ("tree", found.tree),
            ("pushed", f"{found.created_at} by {found.created_by}"),
        ]
    )


@app.command()
def pull(
    version: Version,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="A new folder (default: its name).")
    ] = None,
) -> None:
    """Pull a version of a data set into a new folder; a pull that broke off goes on."""
    from podfleet.client.trees import pulling

    control_plane = client()
    found = version_of(control_plane, version)
    folder = output or Path(found.name)
    try:
        pulling.pull(control_plane, SystemClock(), found.tree, folder, _progress("pulled"))
    except (pulling.Unpulled, Rejected) as error:
        fail(str(error), EXIT_FAILED)
    except Transient as error:
        fail(f"{error.message}; try again, and it goes on", EXIT_UNREACHABLE)
    say(str(folder))


@app.command()
def remove(
    version: Annotated[
        str, typer.Argument(metavar="NAME[/VERSION]", help="Its name: all of its versions, or one of them.")
    ],
) -> None:
    """Remove a version of a data set, or all of them; its number is not given again.

    Refused while a run, a group or a schedule reads it. Its files go when nothing names them any more.
    """
    control_plane = client()
    newest = version_of(control_plane, version)
    alone = [newest] if "/" in version else list(control_plane.data_sets(name=newest.name))
    for each in reversed(alone):
        control_plane.remove_data_set_version(each.name, each.version)
        say(f"{each.id} is removed")


def version_of(control_plane: Client, version: str) -> DataSet:
    """Return a version of a data set, the latest by its name alone. Ends the command at what is none."""
    name, slash, number = version.partition("/")
    if slash and not (number.isascii() and number.isdigit()):
        fail(f"{version!r} is no version of a data set: NAME, or NAME/1", EXIT_WRONG_USE)
    return control_plane.data_set_version(name, int(number)) if slash else control_plane.data_set(name)


def _progress(word: str) -> Callable[[int, int], None]:
    """Return what tells a person at a terminal how far it is, on one line."""
    clock, last = SystemClock(), [SystemClock().monotonic_s()]
    is_seen = sys.stderr.isatty()

    def told(done: int, of: int) -> None:
        now_s = clock.monotonic_s()
        if is_seen and now_s - last[0] > PROGRESS_S:
            last[0] = now_s
            print(f"\r{word} {size(done)} of {size(of)}   ", end="", file=sys.stderr, flush=True)

    return told
