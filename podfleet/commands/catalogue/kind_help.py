"""The help on a kind of run: from the installed kind, else from the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from typer.core import TyperCommand

from events.answers.kind_parts import in_json
from events.kinds import KINDS, RUN_KINDS, read_spec
from events.kinds.declaring.fields import Field, arranged, fields_of, flat
from events.kinds.kind import described
from events.runtime.errors import Rejected
from podfleet.connection import EXIT_WRONG_USE, client, fail
from podfleet.output import clean

OPTION: Final = "--kind"


class KindHelp(TyperCommand):
    """A command whose help tells what the kind takes that is named beside it, else which kinds there are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note which kind is named, since `--help` may stand before it."""
        ctx.meta[OPTION] = named(args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the fields, or the kinds, below the options."""
        kind = ctx.meta.get(OPTION)
        if kind is None:
            with formatter.section(f"Kinds; {OPTION} KIND --help tells the fields of one"):
                formatter.write_dl([(name, KINDS[name].says) for name in sorted(RUN_KINDS)])
            return
        with formatter.section(f"Fields of {clean(kind)}, as -p FIELD=VALUE"):
            rows = [(clean(each.name), clean(summary(each))) for each in fields(description(kind))]
            formatter.write_dl(rows or [("none", "")])


def named(args: Sequence[str]) -> str | None:
    """Return the kind that arguments name; None where they name none."""
    for number, each in enumerate(args):
        name, equals, value = each.partition("=")
        if name == OPTION:
            return value if equals else next(iter(args[number + 1 :]), None)
    return None


def description(kind: str) -> Mapping[str, Any]:
    """Return the description of a kind. Ends the command if the kind is unknown."""
    if kind in KINDS:
        return described(KINDS[kind])
    found: Mapping[str, Any] = in_json(client().kind(kind))
    return found


def fields(kind: Mapping[str, Any]) -> Iterator[Field]:
    """Yield the fields of the specification of a described kind, those of a group in its place."""
    yield from flat(arranged(fields_of(kind.get("specSchema", {}))))


def summary(field: Field) -> str:
    """Return the type of a field, its purpose, and its default."""
    end = (
        "[required]"
        if field.is_required
        else f"[default: {field.default_words}]"
        if field.default_words
        else ""
    )
    return " ".join(filter(None, (f"{field.words}.", field.says, end)))


def check(kind: str, spec: Mapping[str, Any]) -> None:
    """End the command if a specification is invalid, with the message of the control plane.

    One of a kind that is not installed here is left to the control plane.
    """
    if kind not in RUN_KINDS:
        return
    try:
        read_spec(kind, spec)
    except Rejected as error:
        fail(error.message, EXIT_WRONG_USE)
