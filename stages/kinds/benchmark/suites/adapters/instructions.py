"""Items with instructions to follow: IFEval, pure."""

from __future__ import annotations

import json
from typing import Any

from stages.kinds.benchmark.suites.adapters.fields import id_text, listed, text, texts
from stages.kinds.benchmark.suites.instructions.checks import CHECKS, is_fit
from stages.kinds.benchmark.suites.item import Item, Record, Unfit
from stages.kinds.benchmark.suites.payload import Instructions


def ifeval(record: Record) -> Item:
    """Return a prompt of IFEval with its instructions; null arguments are dropped. Raises `Unfit`."""
    names = texts(record, "instruction_id_list")
    given = [_arguments(each) for each in listed(record, "kwargs")]
    if not names or len(names) != len(given):
        raise Unfit("it has not one kwargs for each of its instructions")
    for name, arguments in zip(names, given, strict=True):
        if name not in CHECKS:
            raise Unfit(f"its instruction {name[:80]!r} is unknown")
        if not is_fit(name, arguments):
            raise Unfit(f"the kwargs of {name} do not fit")
    return Item(
        id=id_text(text(record, "key")),
        prompt=text(record, "prompt"),
        payload=Instructions(tuple(zip(names, given, strict=True))),
        expected="; ".join(
            f"{name} {_shown(arguments)}".strip() for name, arguments in zip(names, given, strict=True)
        ),
        subject=", ".join(dict.fromkeys(name.partition(":")[0] for name in names)),
    )


def _arguments(told: Any) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise Unfit("kwargs holds something that is no object")
    return {name: value for name, value in told.items() if value is not None}


def _shown(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False) if arguments else ""
