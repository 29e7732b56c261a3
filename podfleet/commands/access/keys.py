"""`podfleet keys`: creates, lists, rotates and revokes API keys."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final

import typer

from events.answers.access.keys import Key, MadeKey
from events.runtime.clock import SystemClock
from podfleet.connection import EXIT_UNREACHABLE, EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_items, print_json, say
from podfleet.parameters import seconds_of

app = noun("keys")

SHOWN_MAX: Final = 1_000
HOUR_S: Final = 3_600

KeyId = Annotated[str, typer.Argument(metavar="KEY", help="Id of the key, as in `podfleet keys list`.")]


def _state(key: Key) -> str:
    if key.revoked_at:
        return "revoked"
    if key.ends_at and datetime.fromisoformat(key.ends_at) <= SystemClock().now():
        return "ended"
    return "rotated" if key.successor else "open"


COLUMNS: Final = (
    Column("KEY", field("id"), is_whole=True),
    Column("KIND", field("kind"), is_whole=True),
    Column("NAME", field("name")),
    Column("POD", field("pod"), is_spare=True),
    Column("STATE", _state, is_whole=True),
    Column("SCOPES", field("scopes"), lambda scopes: ",".join(scopes), is_spare=True),
    Column("MADE", field("created_at"), ago, is_whole=True),
    Column("BY", field("created_by"), is_spare=True),
    Column("USED", field("last_used_at"), ago, is_whole=True),
    Column("ENDS", field("ends_at"), ago, is_whole=True),
)


@app.command()
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the key's owner, shown in the audit log.")
    ],
    kind: Annotated[str, typer.Option("--kind", "-k", help="viewer, operator, admin or pod.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", "-s", help="A scope within those of its kind; repeatable."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Lifetime, such as 90s, 30m, 2h or 7d.")
    ] = None,
    pod: Annotated[
        str | None, typer.Option(metavar="POD", help="With kind pod: only for the pod of this name.")
    ] = None,
    project: Annotated[
        list[str] | None,
        typer.Option("--project", metavar="NAME", help="Only for runs of this project; repeatable."),
    ] = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Write it directly to MONGODB_URL, for the first key of a fleet.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it; it is shown only once."""
    life_s = None if expires is None else seconds_of(expires, "--expires")
    if direct:
        made = _direct({"kind": kind, "name": name, "pod": pod, "scopes": scope or None, "life_s": life_s,
                        "projects": project or None})  # fmt: skip
    else:
        made = client().make_key(kind, name, scopes=scope or None, pod=pod, life_s=life_s, projects=project)
    _tell(made, as_json=as_json)


@app.command("list")
def list_keys(ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List the keys without their secrets, the newest first."""
    found = list(islice(client().keys(), SHOWN_MAX))
    print_items(
        found,
        COLUMNS,
        as_json=as_json,
        ids_only=ids_only,
        none="none yet: `podfleet keys create NAME -k admin`",
    )


@app.command()
def rotate(
    key: KeyId,
    overlap_hours: Annotated[
        int,
        typer.Option("--overlap-hours", min=0, max=87_600, help="Hours for which the old key stays valid."),
    ] = 24,
    as_json: AsJson = False,
) -> None:
    """Create a key with the same rights and print it; the old one expires after the overlap."""
    _tell(client().rotate_key(key, overlap_s=overlap_hours * HOUR_S), as_json=as_json)


@app.command()
def revoke(key: KeyId, as_json: AsJson = False) -> None:
    """Revoke a key at every control plane, within seconds."""
    revoked = client().revoke_key(key)
    if as_json:
        print_json(revoked)
    else:
        say(f"{revoked.id} ({revoked.name}) is revoked")


def _tell(made: MadeKey, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    print(made.key)
    ends = f"until {made.ends_at}" if made.ends_at else "without end"
    note = f"key {made.id} ({made.name}) may do {', '.join(made.scopes)}, {ends}; it is shown this once"
    typer.echo(note, err=True)


def _direct(body: Mapping[str, Any]) -> MadeKey:
    """Make a key without a control plane, with the caller's access to the database."""
    import asyncio

    from pydantic import ValidationError

    from control_plane.server.api.access.keys import KeyBody
    from events.runtime.errors import ConfigError, Rejected, Transient

    try:
        wanted = KeyBody.model_validate(body)
        return asyncio.run(_store(wanted))
    except ValidationError as error:
        fail("; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors()), EXIT_WRONG_USE)
    except (ConfigError, Rejected) as error:
        fail(error.message, EXIT_WRONG_USE)
    except Transient as error:
        fail(error.message, EXIT_UNREACHABLE)


async def _store(body: Any) -> MadeKey:
    from pathlib import Path

    from control_plane.access.key_ring import KeyRing
    from control_plane.server.api.access.keys import shown_once, wanted_key
    from control_plane.store import database, schema
    from control_plane.store.access.keys import Keys
    from events.runtime.clock import SystemClock, SystemIds
    from events.runtime.errors import ConfigError
    from podfleet.embedded.config import environment

    url = environment(Path.cwd()).get("MONGODB_URL")
    if not url:
        raise ConfigError(["MONGODB_URL is not set; it names the database to write the key to"])
    mongo = database.connect(url)
    try:
        db = database.database(mongo, url)
        await database.require_guarantees(mongo)
        await schema.verify(db)
        clock = await database.stores_clock(db, SystemClock())
        ring = KeyRing(Keys(db), clock, SystemIds())
        return shown_once(await ring.make(wanted_key(body), by=f"direct:{getpass.getuser()}"))
    finally:
        await mongo.close()
