"""A launch parameter of an engine: its type, its range, what it costs, and how it is written; pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec

Value = bool | int | float | str
Type = Literal["whole", "number", "choice", "switch", "any"]

SHOWN_CHARS: Final = 100
TEXT: Final = re.compile(r"[^\x00-\x1f\x7f]{0,500}")  # of a parameter that no row declares

# As a run gives them: what they may be is the engine's to say.
GivenName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")]
GivenValue = bool | int | float | Annotated[str, msgspec.Meta(max_length=500)]
Given = Annotated[
    dict[GivenName, GivenValue],
    msgspec.Meta(max_length=100, description="Launch parameters of the engine; others are its defaults."),
]


@dataclass(frozen=True, slots=True)
class Tried:
    """What a study tries by default: from `low` to `high`, evenly or by their logarithm; or some values."""

    low: float = 0
    high: float = 0
    is_log: bool = False
    values: tuple[Value, ...] = ()

    def space(self, kind: Type) -> dict[str, Any]:
        """Return it as the space of a study has a parameter."""
        if self.values:
            return {"type": "values", "values": list(self.values)}
        form = "log" if self.is_log else "uniform"
        return {"type": "int" if kind == "whole" else form, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter. Without a `default` it is left to the engine, which takes `usual` where that is known.

    `leaves_a_core` is a number of threads: one less than the cores at most, which 0 stands for. As many
    threads as cores stall as soon as anything else runs, since they wait for each other by spinning.
    It is written as `option` or else by its name; a switch as `on` or `off`; or as a `variable` alone.
    """

    name: str
    says: str
    type: Type
    default: Value | None = None
    usual: Value | None = None
    costs: str = ""
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    tried: Tried | None = None
    leaves_a_core: bool = False
    option: str = ""
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    variable: str = ""

    def settled(self, given: Value | None, cores: int | None) -> Value | None:
        """Return the value to start with, None where it is the engine's. Raises `ValueError` with words.

        Without `cores` the machine is not known, and bounds nothing.
        """
        spare = None if cores is None or not self.leaves_a_core else max(1, cores - 1)
        given = self.default if given is None else given
        if given is None:
            return None
        if self.type == "switch":
            is_fit, accepted = isinstance(given, bool), "true or false"
        elif self.type == "choice":
            is_fit, accepted = given in self.choices, f"one of {', '.join(self.choices)}"
        elif self.type == "any":
            is_fit, accepted = _is_plain(given), "a number, true, false, or a line of at most 500 characters"
        else:
            high = self.high if spare is None else spare
            is_fit = _is_number(given, self.type) and self.low <= float(given) <= high
            a = "a whole number" if self.type == "whole" else "a number"
            accepted = f"{a} from {self.low:g} to {high:g}"
        if not is_fit:
            raise ValueError(f"{self.name} has to be {accepted}, not {str(given)[:SHOWN_CHARS]!r}")
        return spare if spare is not None and given == 0 else given

    def words(self, value: Value, option: tuple[str, ...]) -> list[str]:
        """Return the words of a command line for a value; none for one that is a variable.

        `option` has the fields `{name}`, `{dashed}` and `{value}`: how the engine writes one.
        """
        if self.variable:
            return []
        if isinstance(value, bool) and (self.on or self.off or self.type == "any"):
            return list(self.on or (f"--{self.name}",)) if value else list(self.off)
        if self.option:
            return [self.option, text_of(value)]
        fields = {"name": self.name, "dashed": self.name.replace("_", "-"), "value": text_of(value)}
        return [word.format(**fields) for word in option]


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """A combination that the engine refuses, or silently changes: asked where all `of` have a value."""

    says: str
    of: tuple[str, ...]
    is_so: Callable[[Mapping[str, Value]], bool]

    def holds(self, given: Mapping[str, Value]) -> bool:
        """Return whether what was given is such a combination; values have their types."""
        return all(name in given for name in self.of) and self.is_so(given)


def text_of(value: Value) -> str:
    """Return a value as a program reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_number(given: Value, kind: Type) -> bool:
    if isinstance(given, bool | str):
        return False
    if isinstance(given, float):
        return kind == "number" and math.isfinite(given)
    return True


def _is_plain(given: Value) -> bool:
    if isinstance(given, str):
        return TEXT.fullmatch(given) is not None
    return not isinstance(given, float) or math.isfinite(given)
