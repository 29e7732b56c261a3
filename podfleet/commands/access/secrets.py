"""`podfleet secrets`: sets, lists and removes secrets, and encrypts them with a new key.

Law: a value is never an argument, which every user of a machine could read, and is never printed.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from events.text.secret_names import SECRETS_MAX, VALUE_BYTES_MAX, fault_of_name, fault_of_value
from podfleet.connection import EXIT_FAILED, EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_items, print_json, say

app = noun("secrets")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the secret, and of its variable.")]


def _names(names: list[str]) -> str:
    return ",".join(names) or "all"


COLUMNS: Final = (
    Column("NAME", field("id"), is_whole=True),
    Column("KINDS", field("kinds"), _names),
    Column("KEYS", field("keys"), _names),
    Column("SET", field("set_at"), ago, is_whole=True),
    Column("BY", field("set_by")),
    Column("ENCRYPTED", field("key_id"), is_spare=True),
)


@app.command("set")
def set_secret(
    name: Name,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="File that holds the value.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", "-k", metavar="KIND", help="Only for runs of this kind; repeatable."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="NAME", help="Only for keys of this name; repeatable."),
    ] = None,
    for_all: Annotated[
        bool, typer.Option("--for-all", help="For all kinds and keys that are not named here.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Set a secret to a value from a prompt, from standard input or from a file.

    One line end at its end is left out. Without --kind, --key and --for-all those for whom it is stay.
    """
    if fault := fault_of_name(name):
        fail(fault, EXIT_WRONG_USE)
    value = _value(name, file)
    if fault := fault_of_value(value):
        fail(fault, EXIT_WRONG_USE)
    otherwise: list[str] | None = [] if for_all else None
    made = client().set_secret(name, value, kinds=kind or otherwise, keys=key or otherwise)
    if as_json:
        print_json(made)
    else:
        say(f"{made.id} is set, for kinds: {_names(made.kinds)}; keys: {_names(made.keys)}")


@app.command("list")
def list_secrets(ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List the secrets by name, without their values."""
    found = list(islice(client().secrets(), SECRETS_MAX))
    none = "none yet: `podfleet secrets set NAME`"
    print_items(found, COLUMNS, as_json=as_json, ids_only=ids_only, none=none)


@app.command()
def remove(name: Name) -> None:
    """Remove a secret; a run that names it fails at its next attempt."""
    client().remove_secret(name)
    say(f"{name} is removed")


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Encrypt every secret with the first key of the control plane; after that older keys can go."""
    done = client().rotate_secrets()
    if as_json:
        print_json(done)
    else:
        say(f"{done.count} secrets were encrypted anew, with the key {done.key_id}")
    if done.unreadable:
        fail(f"the key of {', '.join(done.unreadable)} is not at the control plane", EXIT_FAILED)


def _value(name: str, file: Path | None) -> str:
    try:
        if file is not None:
            with file.open("rb") as opened:
                given = opened.read(VALUE_BYTES_MAX + 2)
        elif sys.stdin.isatty():
            return str(typer.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True))
        else:
            given = sys.stdin.buffer.read(VALUE_BYTES_MAX + 2)
        return given.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        fail(f"{file}: {error.strerror}", EXIT_WRONG_USE)
    except UnicodeDecodeError:
        fail("a value is text in UTF-8", EXIT_WRONG_USE)
