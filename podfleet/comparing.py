"""Compares runs side by side: parameters, ends, scores and cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from events.answers.runs import Comparison
from podfleet.output import Column, print_items, print_json


def show(comparison: Comparison, *, everything: bool, as_json: bool) -> None:
    """Print a line for each thing in which the runs differ; with `everything`, also where they agree."""
    rows = [
        {"field": row.field, "values": row.values} for row in comparison.fields if everything or row.differs
    ]
    if as_json:
        print_json({"runs": comparison.runs, "differing": rows})
        return
    columns = [Column("FIELD", lambda row: row["field"], is_whole=True)]
    columns += [Column(run, partial(_value, number)) for number, run in enumerate(comparison.runs)]
    print_items(rows, columns, none="no differences")


def _value(number: int, row: Mapping[str, Any]) -> Any:
    value = row["values"][number]
    return json.dumps(value) if isinstance(value, list | dict) else value
