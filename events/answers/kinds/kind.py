"""Kinds of run as the HTTP interface shows them."""

from __future__ import annotations

from typing import Any, Literal

from events.answers.answer import Answer, Count


class ColumnAnswer(Answer, frozen=True, kw_only=True):
    """A column of a result set, or a headline number: its type, its unit, which direction is better.

    `format` is a format of Python for numbers, such as `.3f`; empty is the shortest form.
    """

    name: str
    type: Literal["number", "text", "bool"]
    unit: str
    direction: Literal["higher", "lower"] | None
    format: str


class ResultSetAnswer(Answer, frozen=True, kw_only=True):
    """Rows that runs of a kind record."""

    name: str
    title: str
    columns: list[ColumnAnswer]


class KindAnswer(Answer, frozen=True, kw_only=True):
    """A kind of run; the control plane alone makes runs of one that is not open.

    `spec_schema` is the JSON Schema of its specification, `example` one that can be run. `labels` maps a
    label to the field that it is taken from. `needs` are the modules of a pod that runs it, `live_pods` the
    number of pods that take its runs now.
    """

    name: str
    says: str
    is_open: bool
    stages: list[str]
    spec_schema: dict[str, Any]
    example: dict[str, Any]
    labels: dict[str, str]
    result_sets: list[ResultSetAnswer]
    headline: list[ColumnAnswer]
    needs: list[str]
    live_pods: Count
