"""A kind of run that a package of its own brings: it greets people, and keeps to whom it spoke."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from events.kinds.declaring.fact import Fact, Name
from events.kinds.declaring.spec import Spec
from events.kinds.kind import DocumentSet, Kind, Position, Projected

GREETINGS: Final = "greetings"


class HelloSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom to greet, how often, and with which word."""

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    times: Annotated[int, msgspec.Meta(ge=1, le=20)] = 1
    word: str = "Hello"


class Greeted(Fact, frozen=True):
    """Somebody was greeted."""

    to: Name
    text: str


def _title(spec: HelloSpec) -> str:
    return f"Greet {spec.to}"


def _check(spec: HelloSpec) -> str | None:
    return "`to` is nobody; name somebody" if spec.to == "nobody" else None


def _greeted(fact: Greeted, position: Position) -> Iterable[Projected]:
    fields = {"to": fact.to, "text": fact.text, "at": position.at}
    yield Projected(GREETINGS, f"greeting/{position.sequence}", fields)


KIND: Final = Kind(
    name="hello",
    says="Greets people.",
    spec=HelloSpec,
    example={"to": "Ada"},
    pipeline="hello_kind.pipeline",
    package="hello_kind.control_plane",
    title=_title,
    check=_check,
    stages=("greet",),
    facts={"ai.hello.greeted": Greeted},
    documents=(DocumentSet(GREETINGS, "whom an attempt greeted", ("to", "text", "at")),),
    projections={Greeted: _greeted},
    lines={"ai.hello.greeted": lambda data: f"to {data['to']}: {data['text']}"},
    codes={"NOBODY_THERE": "Name somebody who is there."},
    labels={"to": "to"},
)
