"""The values of a sweep: `KEY=1,2,3` varies, `KEY=log(1,10)` is a range, `KEY=1` is fixed, pure."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podfleet.parameters import Unreadable, put, value_of

RUNS_USUAL: Final = 40
RANGE: Final = re.compile(r"\s*(log|uniform|int)\(([^,()]+),([^,()]+)\)\s*")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`."""

    form: str
    low: float
    high: float


PRUNE: Final = re.compile(r"((?:min|max):.*?)((?:,(?:keep|after|members)=[0-9.]+)*)")
PRUNE_FIELDS: Final = {"keep": "keep_percent", "after": "after_step", "members": "min_members"}

Varied = Mapping[str, list[Any] | Range]


def fixed_and_varied(spec: dict[str, Any], pairs: Sequence[str]) -> dict[str, list[Any] | Range]:
    """Put parameters with one value into `spec`; return the others, each with its values or its range.

    Raises `Unreadable`.
    """
    varied: dict[str, list[Any] | Range] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not all(name.split(".")):
            raise Unreadable(f"-p {pair!r} is not key=values, such as -p seconds=1,2,3")
        values = values_of(text)
        if isinstance(values, list) and len(values) == 1:
            put(spec, pair)
        elif name in varied:
            raise Unreadable(f"-p {name} is given twice")
        else:
            varied[name] = values
    return varied


def example_of(spec: Mapping[str, Any], varied: Varied) -> dict[str, Any]:
    """Return the specification of a first run, by which others are checked before anything is sent.

    Raises `Unreadable`.
    """
    found: dict[str, Any] = copy.deepcopy(dict(spec))
    for name, values in varied.items():
        first = (
            values[0] if isinstance(values, list) else int(values.low) if values.form == "int" else values.low
        )
        put(found, f"{name}={json.dumps(first)}")
    return found


def values_of(text: str) -> list[Any] | Range:
    """Return the range in a text, else its values: JSON values by commas, else texts by commas.

    Raises `Unreadable`.
    """
    if (found := RANGE.fullmatch(text)) is not None:
        try:
            low, high = float(found[2]), float(found[3])
        except ValueError:
            raise Unreadable(f"{text!r} is no range of numbers, such as log(0.001,1)") from None
        return Range(found[1], low, high)
    try:
        values = json.loads(f"[{text}]")
    except ValueError:
        return [value_of(part.strip()) for part in text.split(",")]
    return values if isinstance(values, list) and values else [text]


def plan_of(study: str | None, varied: Varied, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of a group: a matrix, or a study where a sampler is named. Raises `Unreadable`."""
    given = {name: value for name, value in limits.items() if value is not None}
    if not varied:
        raise Unreadable("no parameter varies: give one several values, such as -p seconds=1,2,3")
    if study is not None:
        if "goal" not in given:
            raise Unreadable("a study needs a goal, such as --goal min:loss")
        space = {name: _dimension(values) for name, values in varied.items()}
        return {"kind": "study", "sampler": study, "space": space, "max_runs": RUNS_USUAL, **given}
    if ranges := [name for name, values in varied.items() if isinstance(values, Range)]:
        raise Unreadable(f"-p {ranges[0]} is a range: name a sampler with --study, or list its values")
    if alone := sorted(given.keys() - {"parallel", "stop_after_failures", "budget_usd"}):
        raise Unreadable(f"--{alone[0].replace('_', '-')} is of a study: name a sampler with --study")
    return {"kind": "matrix", "values": dict(varied), **given}


def limits_of(given: Mapping[str, Any], prune: str | None, further: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a plan besides its values: those given, the rule in `prune`, and `key=value`.

    Raises `Unreadable`.
    """
    limits = {**given, "prune": None if prune is None else prune_of(prune)}
    for pair in further:
        put(limits, pair)
    return limits


def prune_of(text: str) -> dict[str, Any]:
    """Return the rule in `min:NAME,keep=50,after=0,members=5`, all but its first part left out at will.

    Raises `Unreadable`.
    """
    found = PRUNE.fullmatch(text)
    if found is None:
        raise Unreadable(f"--prune {text!r} is not min:NAME or max:NAME, with keep=, after= or members=")
    pairs = [part.split("=") for part in found[2].split(",") if part]
    return {"by": found[1], **{PRUNE_FIELDS[name]: value_of(value) for name, value in pairs}}


def _dimension(values: list[Any] | Range) -> dict[str, Any]:
    if isinstance(values, Range):
        return {"type": values.form, "low": values.low, "high": values.high}
    return {"type": "values", "values": values}
