"""The options that a form changes, against those that a run has, pure.

Law: what was not sent, or was sent as it was shown, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control_plane.runs.options import OptionChanges
from control_plane.server.web.forms.fields import typed_lines
from control_plane.server.web.forms.parts import KEPT, Input, Part, option_parts, options_in, shown, typed_as


def parts_with(options: Mapping[str, Any]) -> list[tuple[Part, list[Input]]]:
    """Return the options that a form can change, filled in as they are."""
    parts = option_parts(KEPT)
    return shown(parts, typed_as(parts, options), {})


def changes_in(typed: Mapping[str, str], options: Mapping[str, Any]) -> OptionChanges:
    """Return how the typed texts change the options that were shown. Raises `Unfit`."""
    parts = option_parts(KEPT)
    before = typed_as(parts, options)
    names = [name for part in parts for name, _ in part.named() if name in typed]
    others = {_option(name) for name in names if _plain(typed[name]) != _plain(before.get(name, ""))}
    texts = {name: typed[name] for name in names if _option(name) in others}
    wanted = options_in(texts, KEPT).model_dump(include=others)
    if "labels" in wanted:
        gone = options.get("labels", {}).keys() - wanted["labels"].keys()
        wanted["labels"] = {**dict.fromkeys(gone), **wanted["labels"]}
    return OptionChanges(**wanted)


def _option(name: str) -> str:
    """Return the option that a field belongs to: that of `requires.region` is `requires`."""
    return name.partition(".")[0]


def _plain(text: str) -> str:
    return typed_lines(text).strip()
