"""Tasks as text: exported as JSON or YAML, and read from either, pure.

Law: what is imported is checked as what is posted. A YAML text has no tags, no anchors and no aliases, so
that it is as large as it looks.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import yaml
from pydantic import ValidationError

from control_plane.kinds.trial.bodies import TaskBody, stored
from events.answers.kinds.tasks import TriedConfiguration
from events.kinds.trial import HEADLINE
from events.runtime.errors import Rejected
from events.text.escaping import spreadsheet_cell

Format = Literal["json", "yaml"]
BYTES_MAX: Final = 64 * 1024
DEPTH_MAX: Final = 12
PROBLEMS_MAX: Final = 5
MEDIA: Final[Mapping[str, str]] = {"json": "application/json", "yaml": "application/yaml"}


def exported(body: TaskBody, form: Format) -> str:
    """Return a task as text, from which the same task is read again."""
    fields = stored(body)
    if form == "json":
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100))


def read_task(text: str, name: str | None = None) -> TaskBody:
    """Return the task in a text, under another name where one is given. Raises `Rejected`."""
    if (size := len(text.encode(errors="replace"))) > BYTES_MAX:
        raise Rejected("bad_import", f"the text has {size:,} bytes; at most {BYTES_MAX:,} are read")
    fields = _fields(text)
    if name is not None:
        fields = {**fields, "name": name}
    try:
        return TaskBody.model_validate(fields)
    except ValidationError as error:
        words = [f"{'.'.join(map(str, each['loc'])) or 'task'}: {each['msg']}" for each in error.errors()]
        raise Rejected("bad_import", "; ".join(words[:PROBLEMS_MAX])[:2_000]) from None


def in_csv(experiments: Sequence[TriedConfiguration]) -> bytes:
    """Return experiments as CSV: a line each, with its parameters and numbers. No cell is a formula."""
    parameters = list(dict.fromkeys(name for each in experiments for name in each.parameters))
    text = io.StringIO()
    lines = csv.writer(text)
    head = ["experiment", "status", "is_best", "is_baseline", "score", "low", "high", *parameters]
    lines.writerow([*map(spreadsheet_cell, head), *(each.name for each in HEADLINE), "run", "remark"])
    for each in experiments:
        own = [each.number, each.status, each.is_best, each.is_baseline, each.score, each.low, each.high]
        values = [each.parameters.get(name) for name in parameters]
        numbers = [each.summary.get(column.name) for column in HEADLINE]
        last = [each.runs[-1].id if each.runs else None, each.failure or each.infeasible]
        lines.writerow([spreadsheet_cell(value) for value in (*own, *values, *numbers, *last)])
    return text.getvalue().encode("utf-8", "replace")


def _fields(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Rejected("bad_import", f"the text is no JSON: {str(error)[:200]}") from None
    else:
        try:
            _require_plain(text)
            found = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            words = " ".join(str(error).split())[:300]
            raise Rejected("bad_import", f"the text is no YAML that is read: {words}") from None
    if not isinstance(found, dict):
        raise Rejected("bad_import", "the text has no task: a mapping with its fields is wanted")
    if _is_deeper(found, DEPTH_MAX):
        raise Rejected("bad_import", f"the text is deeper than {DEPTH_MAX} levels")
    return found


def _require_plain(text: str) -> None:
    """Require a text without tags, anchors and aliases. Raises `yaml.YAMLError`, `ValueError`."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            raise ValueError(f"line {line}: deeper than {DEPTH_MAX} levels")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ValueError(f"line {line}: no anchors and no aliases are read")
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"line {line}: no tags are read")


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(each, levels - 1) for each in inner)
