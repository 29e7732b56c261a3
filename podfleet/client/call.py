"""One call to a control plane: the request, and the type of its answer; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from inspect import Parameter, signature
from types import NoneType
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import quote

import msgspec

from events.answers.kind_parts import gathered
from events.answers.runs import Run
from podfleet.client.problems import Refused, refusal

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
M = TypeVar("M", bound=Callable[..., Any])

LINE_BYTES_MAX: Final = 16 * 1024 * 1024  # no control plane sends a longer one
SLASHED: Final = frozenset({"pod_id", "artifact_id"})  # ids that hold slashes, which stay as they are
DOTS: Final = frozenset({".", ".."})


class Malformed(Exception):
    """An answer does not have the form of a control plane's answer; the text says where."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """The target of a redirect by the control plane."""

    location: str


@dataclass(frozen=True, slots=True)
class Call(Generic[A_co]):
    """A request; `path` is a path of the OpenAPI document, `place` has the values of its parameters."""

    method: str
    path: str
    answer: type[A_co]
    place: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)  # what is None is not sent
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The path with its values in place."""
        return self.path.format_map({name: _quoted(name, value) for name, value in self.place.items()})

    @property
    def parameters(self) -> dict[str, Any]:
        """The query."""
        return {name: value for name, value in self.query.items() if value is not None}

    def read(self, status: int, content: bytes, location: str | None) -> A_co:
        """Return the answer. Raises `Refused`, `Malformed`."""
        if status >= 400:
            raise refused(status, content)
        if self.answer is NoneType:
            return cast("A_co", None)
        if self.answer is Redirect:
            return cast("A_co", Redirect(location or ""))
        return decoded(content, self.answer)


def _quoted(name: str, value: str) -> str:
    """Return a value as a part of a path; `.` and `..` lead nowhere."""
    parts = quote(value, safe="/" if name in SLASHED else "").split("/")
    return "/".join(part.replace(".", "%2E") if part in DOTS else part for part in parts)


@dataclass(slots=True)
class Lines:
    """Divides the pieces of an answer into its lines; `rest` is what follows the last line break."""

    rest: bytes = b""

    def of(self, piece: bytes) -> list[str]:
        """Return the lines that end in this piece, without line breaks. Raises `Malformed`."""
        *lines, self.rest = (self.rest + piece).split(b"\n")
        if len(self.rest) > LINE_BYTES_MAX:
            raise Malformed(f"a line of it has more than {LINE_BYTES_MAX} bytes")
        return [line.removesuffix(b"\r").decode(errors="replace") for line in lines]


def is_paged(call: Callable[..., Call[Any]]) -> bool:
    """Say whether the answer of a call may have further pages."""
    return "after" in signature(call).parameters


def named_as(call: Callable[..., Call[Any]], method: M) -> M:
    """Return the method of a client that makes a call, with the name, text and parameters of the call."""
    update_wrapper(method, call)
    shape = signature(call)
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    method.__dict__["__signature__"] = shape.replace(
        parameters=[own, *shape.parameters.values()], return_annotation=shape.empty
    )
    return method


def decoded(content: bytes | str, kind: type[A]) -> A:
    """Return JSON decoded as a struct. Raises `Malformed`."""
    try:
        if kind is Run:
            return cast("A", gathered(msgspec.json.decode(content, type=dict[str, Any])))
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from error


def refused(status: int, content: bytes) -> Refused:
    """Return the exception for a refusal. Raises `Malformed` if it is not from a control plane."""
    return refusal(status, decoded(content, dict[str, Any]))
