"""`podfleet webhooks`: who is told of what happens: adds, lists and tests webhooks, replays deliveries."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated, Final

import typer

from events.answers.access.webhooks import MadeWebhook, Webhook
from podfleet.connection import EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_items, print_json, say

app = noun("webhooks")

SHOWN_MAX: Final = 1_000
URL_CHARS_MAX: Final = 2_000
Id = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Id, as in `podfleet webhooks list`.")]


def _filters(webhook: Webhook) -> str:
    named = {name: getattr(webhook.filters, name) for name in webhook.filters.__struct_fields__}
    return " ".join(f"{name}={','.join(each)}" for name, each in named.items() if each) or "all"


def _state(webhook: Webhook) -> str:
    return "enabled" if webhook.enabled else f"disabled: {webhook.disabled_why}"


COLUMNS: Final = (
    Column("WEBHOOK", field("id"), is_whole=True),
    Column("FORMAT", field("format"), is_whole=True),
    Column("PLACE", field("place")),
    Column("TOLD", _filters, is_prose=True),
    Column("STATE", _state),
    Column("MADE", field("created_at"), ago, is_whole=True, is_spare=True),
    Column("BY", field("created_by"), is_spare=True),
)
DELIVERIES: Final = (
    Column("DELIVERY", field("id"), is_whole=True),
    Column("TYPE", field("type"), is_whole=True),
    Column("OF", field("subject")),
    Column("STATE", field("state"), is_whole=True),
    Column("TRIES", field("tries"), is_whole=True, is_right=True),
    Column("STATUS", field("last_status"), is_whole=True, is_right=True),
    Column("NEXT", field("due_at"), ago, is_whole=True),
    Column("PROBLEM", field("last_problem"), is_spare=True, is_prose=True),
    Column("MADE", field("created_at"), ago, is_whole=True),
)


def _told(metavar: str, what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar=metavar, help=f"{what}; repeatable.")
    return option


@app.command("list")
def list_webhooks(ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List the webhooks, the newest first, without their URLs and secrets."""
    found = list(islice(client().webhooks(), SHOWN_MAX))
    none = "none yet: `podfleet webhooks add URL`"
    print_items(found, COLUMNS, as_json=as_json, ids_only=ids_only, none=none)


@app.command()
def add(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="https://host/path, mailto:name@host, or - to read it.")
    ],
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="standard, slack, discord, plain or mail."),
    ] = None,
    type: Annotated[list[str] | None, _told("TYPE", "Only this type, such as run.failed or run")] = None,
    project: Annotated[list[str] | None, _told("NAME", "Only of this project")] = None,
    kind: Annotated[list[str] | None, _told("KIND", "Only of this kind")] = None,
    label: Annotated[list[str] | None, _told("NAME=VALUE", "Only with this label")] = None,
    owner: Annotated[list[str] | None, _told("NAME", "Only what this key or person submitted")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a webhook, and print its secret, which is shown only once.

    A URL of a chat is a password: `-` reads it from standard input, where no other user sees it.
    """
    if url == "-":
        url = sys.stdin.read(URL_CHARS_MAX + 1).strip()
    made = client().add_webhook(
        url,
        format=form or ("mail" if url.startswith("mailto:") else "standard"),
        types=type or (),
        projects=project or (),
        kinds=kind or (),
        labels=label or (),
        owners=owner or (),
    )
    _tell(made, as_json=as_json)


@app.command()
def remove(webhook: Id) -> None:
    """Remove a webhook, and everything that was to be sent to it."""
    client().remove_webhook(webhook)
    say(f"{webhook} is removed")


@app.command()
def rotate(webhook: Id, as_json: AsJson = False) -> None:
    """Make a new secret and print it; for a day deliveries are signed with the former one, too."""
    _tell(client().rotate_webhook(webhook), as_json=as_json)


@app.command()
def enable(webhook: Id, as_json: AsJson = False) -> None:
    """Send to a webhook again; what happened meanwhile is not told."""
    _tell_of(client().change_webhook(webhook, enabled=True), as_json=as_json)


@app.command()
def disable(webhook: Id, as_json: AsJson = False) -> None:
    """Send nothing to a webhook until it is enabled."""
    _tell_of(client().change_webhook(webhook, enabled=False), as_json=as_json)


@app.command("test")
def send_test(webhook: Id, as_json: AsJson = False) -> None:
    """Have a test delivered; `podfleet webhooks deliveries WEBHOOK` says how that went."""
    made = client().test_webhook(webhook)
    if as_json:
        print_json(made)
    else:
        say(f"{made.id} is on its way")


@app.command()
def deliveries(
    webhook: Id,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only those: pending, delivered or dead.")
    ] = None,
    ids_only: IdsOnly = False,
    as_json: AsJson = False,
) -> None:
    """List what was sent to a webhook, and what will be, the newest first."""
    found = list(islice(client().deliveries(webhook, state=state), SHOWN_MAX))
    print_items(found, DELIVERIES, as_json=as_json, ids_only=ids_only)


@app.command()
def replay(
    webhook: Id,
    delivery: Annotated[
        str | None, typer.Argument(metavar="DELIVERY", help="Id, as in `podfleet webhooks deliveries`.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="All dead letters.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send a delivery again that has ended, or all dead letters, with the same ids."""
    if (delivery is None) != dead:
        fail("name a delivery, or say --dead for all dead letters", EXIT_WRONG_USE)
    done = client().replay_webhook(webhook, delivery=delivery)
    if as_json:
        print_json(done)
    else:
        say(f"{done.count} are sent again")


def _tell(made: MadeWebhook, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    say(f"{made.webhook.id} tells {made.webhook.place} ({made.webhook.format})")
    if made.secret is not None:
        print(made.secret, flush=True)


def _tell_of(webhook: Webhook, *, as_json: bool) -> None:
    if as_json:
        print_json(webhook)
    else:
        say(f"{webhook.id} is {_state(webhook)}")
