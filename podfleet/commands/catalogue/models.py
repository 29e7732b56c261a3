"""`podfleet models`: lists, shows, sets, removes and syncs the models that runs may name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Final

import typer

from events.answers.kinds.models import CatalogueModel
from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_fields, print_items, print_json, say
from podfleet.parameters import put

app = noun("models")

Name = Annotated[str, typer.Argument(metavar="MODEL", help="Its name here.")]


def _place(found: CatalogueModel) -> str:
    if found.endpoint is not None:
        return f"{found.endpoint.model} at {found.endpoint.base_url}"
    return f"{found.served.weights} by {found.served.engine}" if found.served is not None else ""


COLUMNS: Final = (
    Column("NAME", field("id"), is_whole=True),
    Column("WHERE", _place),
    Column("IN_USD", field("input_usd_per_mtok")),
    Column("OUT_USD", field("output_usd_per_mtok")),
    Column("CONTEXT", field("context_tokens")),
    Column("CHANGED", field("updated_at"), ago, is_whole=True),
    Column("TITLE", field("title"), is_spare=True),
)


@app.command("list")
def list_models(limit: Limit = SHOWN, ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List the models by name; prices are dollars for a million tokens."""
    found = list(islice(client().models(limit=min(limit, 200)), limit))
    none = "none yet: `podfleet models set`, or `podfleet models sync URL`"
    print_items(found, COLUMNS, as_json=as_json, ids_only=ids_only, none=none)


@app.command()
def show(model: Name, as_json: AsJson = False) -> None:
    """Show a model: where it is, its prices and limits."""
    found = client().model(model)
    if as_json:
        print_json(found)
        return
    print_fields(
        [
            ("name", found.id),
            ("title", found.title or None),
            *_place_fields(found),
            ("in", _usd(found.input_usd_per_mtok)),
            ("out", _usd(found.output_usd_per_mtok)),
            ("context", _tokens(found.context_tokens)),
            ("answer", _tokens(found.answer_tokens_max)),
            ("at once", None if found.concurrency_max is None else str(found.concurrency_max)),
            ("changed", f"{found.updated_at} by {found.updated_by}"),
            ("listing", found.synced_from),
        ]
    )


@app.command("set")
def set_model(
    model: Name,
    base_url: Annotated[str | None, typer.Option(metavar="URL", help="Address of its API.")] = None,
    provider: Annotated[str, typer.Option(help="Whose API that is: openai or anthropic.")] = "openai",
    named: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Its name there, if another.")
    ] = None,
    secret: Annotated[str | None, typer.Option(metavar="NAME", help="Secret that holds the key.")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine by which a pod serves it.")] = None,
    weights: Annotated[str | None, typer.Option(help="Weights on the pod, by their name.")] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="Of the engine; repeatable."),
    ] = None,
    title: Annotated[str, typer.Option(help="What people call it.")] = "",
    input_usd: Annotated[float | None, typer.Option(help="Dollars for a million tokens of prompts.")] = None,
    output_usd: Annotated[float | None, typer.Option(help="Dollars for a million tokens of answers.")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens of context.")] = None,
    answer_tokens: Annotated[int | None, typer.Option(help="Tokens of an answer, at most.")] = None,
    at_once: Annotated[int | None, typer.Option(help="Requests at once, at most.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set a model, in the place of what has its name: an endpoint, or weights that a pod serves."""
    place: dict[str, Any] = {}
    if base_url is not None:
        place["endpoint"] = {
            "provider": provider,
            "model": named or model,
            "base_url": base_url,
            "secret": secret,
        }
    if engine is not None or weights is not None:
        parameters = _parameters(parameter or ())
        place["served"] = {"engine": engine or "", "weights": weights or model, "parameters": parameters}
    if len(place) != 1:
        fail("give --base-url of an endpoint, or --engine and --weights of a model to serve", EXIT_WRONG_USE)
    made = client().set_model(
        model,
        **place,
        title=title,
        input_usd_per_mtok=input_usd,
        output_usd_per_mtok=output_usd,
        context_tokens=context,
        answer_tokens_max=answer_tokens,
        concurrency_max=at_once,
    )
    if as_json:
        print_json(made)
    else:
        say(f"{made.id} is set: {_place(made)}")


@app.command()
def delete(model: Name) -> None:
    """Remove a model; a run that names it fails at its next attempt."""
    client().remove_model(model)
    say(f"{model} is removed")


@app.command()
def sync(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of an API like OpenAI's.")],
    as_json: AsJson = False,
) -> None:
    """Add and update the models that the listing of an API names; it is asked without a key."""
    done = client().sync_models(url)
    if as_json:
        print_json(done)
        return
    say(f"from {done.url}: {done.added} added, {done.updated} updated, {done.kept} kept as they were")
    if done.unreadable or done.left_out:
        say(f"{done.unreadable} could not be read, {done.left_out} had no room")


def _place_fields(found: CatalogueModel) -> Iterator[tuple[str, str | None]]:
    if found.endpoint is not None:
        yield "provider", found.endpoint.provider
        yield "model", found.endpoint.model
        yield "address", found.endpoint.base_url
        yield "secret", found.endpoint.secret
    if found.served is not None:
        yield "engine", found.served.engine
        yield "weights", found.served.weights
        for name, value in found.served.parameters.items():
            yield name, str(value)


def _parameters(pairs: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        put(found, pair)
    return found


def _usd(price: float | None) -> str | None:
    return None if price is None else f"{price:g} $ for a million tokens"


def _tokens(count: int | None) -> str | None:
    return None if count is None else f"{count:,} tokens"
