"""Stored values in words for people, pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, get_args

import msgspec
from markupsafe import Markup, escape

from events.answers.logs import LoggedEvent
from events.catalog import Level, RunLog, type_of
from events.kinds import KINDS
from events.kinds.packages.guarded_call import asked
from events.text.escaping import is_number
from events.text.predecessors import shown
from events.text.truncation import brief_data

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400
SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
SIZE_STEP: Final = 1024
CENTS_SHOWN_MIN: Final = 0.0001
SHARE_MAX: Final = 1e6  # what is more is no share, and is shown without a per cent sign
TEXT_SHOWN_CHARS: Final = 20_000
LINE_SHOWN_CHARS: Final = 2_000  # of one line among many; its JSON has more, and the API all
UNNAMED_CHARS_MAX: Final = 80
VALUES_SHOWN_MAX: Final = 8
LOG: Final = type_of(RunLog)
LEVELS: Final = get_args(Level)
_LAYOUT: Final = json.JSONEncoder(indent=1, ensure_ascii=False, sort_keys=True, default=msgspec.to_builtins)
# An idea's fields in the order in which people read them; the name stands above.
IDEA_FIELDS: Final = (
    "Title",
    "Short Hypothesis",
    "Abstract",
    "Experiments",
    "Related Work",
    "Risk Factors and Limitations",
    "Name",
)

# A sign beside the colour, so that no status is told by colour alone.
SIGNS: Final = {
    "QUEUED": "○",
    "DELAYED": "◔",
    "SCHEDULED": "◑",
    "RUNNING": "▶",
    "AUTO_VALIDATING": "▶",
    "CANCELING": "◐",
    "AWAITING_HUMAN": "?",
    "COMPLETED": "✓",
    "HUMAN_VALIDATED": "✓",
    "HUMAN_REJECTED": "✗",
    "FAILED": "✗",
    "CANCELED": "–",
}

FAULT_WORDS: Final = {
    "pod": "It was the fault of its pod: nothing is charged to the run, and another pod may take it.",
    "outside": "It was the fault of something outside: nothing is charged to the run, which is tried again.",
}
NEXT_STEPS: Final = {
    "OUT_OF_MEMORY": "Use a smaller model or batch, or ask for a pod with more memory (requires.gpu_gib).",
    "TIMEOUT": "Raise time_limit_s, or lower the number of nodes.",
    "KILLED": "Something outside the run ended it; retry.",
    "PIPELINE_KILLED": "Does the program end its parent or its process group? See log.txt, and the pod's.",
    "GPU_NOT_OWN": "Use the cards that CUDA_VISIBLE_DEVICES names at the program's start; set it nowhere.",
    "GPU_DISTURBED": "Another run computed on its GPU, see the log; it is tried again.",
    "POD_LOST": "The pod went away; retry, and look at the pod's own log.",
    "RESULT_REFUSED": "The pipeline recorded a result that its kind does not declare; see the message.",
    "ARTIFACT_REFUSED": "A file that the run made cannot be kept; the message says which, and why.",
    "ARTIFACT_UPLOAD_FAILED": "Check that the pod reaches the object storage, then retry.",
    "FILES_UNREACHABLE": "Check that the pod reaches the control plane and the storage; it is tried again.",
    "FILES_MISSING": "Submit the folder again, or push it by `podfleet data push --check`: that mends it.",
    "CACHE_TOO_SMALL": "Raise PODFLEET_TREE_CACHE_GIB of the pod, or name pods that keep more (--requires).",
    "START_FAILED": "Look at the pod's own log: its pipelines do not start.",
    "START_TIMEOUT": "The pod is too slow or stands still; look at its page and its own log.",
    "NO_ISOLATION": "Install bubblewrap on the pod; PODFLEET_ISOLATION allows less for generated programs.",
    "DISK_FULL": "Make room on the pod's disk, or start a pod with a larger one.",
    "DISK_LIMIT": "Write less, remove what is no longer needed, or take pods with a larger disk.",
    "DISK_FAILED": "The pod's disk fails; look at the pod's own log, and replace the pod.",
    "OUTBOX_FULL": "The pod cannot deliver its events; check that it reaches the control plane.",
    "CUDA_UNSUPPORTED_ARCH": "Install a PyTorch build that knows this GPU on the pod.",
    "GPU_BROKEN": "The pod's GPU, its driver or its libraries fail, as the message says; mend or replace it.",
    "BUDGET_EXCEEDED": "What was found by then is kept; raise max_cost_usd or max_tokens and run it again.",
    "BUDGET_SPENT": "Raise budget_usd, or ask for cheaper pods; retry goes on from the checkpoints.",
    "BUDGET_UNKNOWN": "The control plane could not say what earlier attempts have cost; it is tried again.",
    "POD_TOO_DEAR": "The rest of budget_usd pays for less than a minute of this pod: a cheaper one takes it.",
    "NO_PRICE": "Set PODFLEET_GPU_USD_PER_HOUR on the pods, or leave budget_usd out.",
    "NOT_AVAILABLE": "The message says what the pod lacks.",
    "ENGINE_FAILED": "Look at the engine's log; often the memory of the pod is too small.",
    "CONFIG": "The message says what can be run; submit again with that.",
    "MODEL_UNREACHABLE": "Check OPENAI_BASE_URL and the network of the pod, then try again.",
    "MODEL_TIMED_OUT": "The model's server was too slow; try again when it is less busy.",
    "MODEL_RATE_LIMITED": "The model's server asks for fewer requests; try again later.",
    "MODEL_QUOTA": "The account of the pod's key has no quota left; refill it, or use another key.",
    "MODEL_UNAUTHORISED": "Check the pod's key; without any key the built-in researcher serves.",
    "MODEL_REFUSED": "The model would not answer this; word the idea in another way, or use another model.",
    "MODEL_MALFORMED": "The model did not answer in the form asked for; use a more capable one.",
    "MODEL_CUT_OFF": "The model's answers were cut off; use one with more room for an answer.",
    "USER_SIGNED_OUT": "The user signs in again by the issuer, and retries the run.",
    "SECRET_MISSING": "Set the secret by `podfleet secrets set NAME`, for runs of this kind; then retry.",
    "SECRETS_UNREACHABLE": "Check the pod's network, and the key for secrets of the control plane.",
    "QUEUE_TIMEOUT": "Start a pod that serves this class, then retry.",
    **{code: step for kind in KINDS.values() for code, step in kind.codes.items()},
}
_LINES: Final = {name: line for kind in KINDS.values() for name, line in kind.lines.items()}


def status(name: str) -> Markup:
    """Return a status as a badge with sign, word and colour."""
    return Markup('<span class="badge s-{0}"><span aria-hidden="true">{1}</span> {0}</span>').format(
        name, SIGNS.get(name, "·")
    )


def vain_wait(run_id: str, status: str | None, problem: str | None) -> str:
    """Return for which run, and its end, another one was canceled that waited for it."""
    return problem or f"{shown(run_id)}, for which it waited, is {status or 'gone'}"


def moment(text: str | None) -> Markup:
    """Return a moment (RFC 3339 text) as a time element that scripts turn into relative words."""
    if not text:
        return Markup("–")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(text, text[:19].replace("T", " "))


def clock(text: str) -> str:
    """Return a moment with its zone's distance from UTC (RFC 3339 text) as on a calendar and a clock."""
    at = datetime.fromisoformat(text)
    zone = "UTC" if at.utcoffset() == timedelta(0) else f"UTC{at.isoformat()[-6:]}"
    return f"{at:%a} {at.day} {at:%b %Y, %H:%M} {zone}"


def seconds(value: float | None) -> str:
    """Return a duration given in seconds."""
    if value is None or not math.isfinite(value):
        return "–"
    if value < MINUTE_S:
        return f"{value:.1f} s"
    value = int(value)  # rounded, the last second of a minute would be its sixtieth
    if value < HOUR_S:
        return f"{value // MINUTE_S:.0f} min {value % MINUTE_S:.0f} s"
    if value < DAY_S:
        return f"{value // HOUR_S:.0f} h {value % HOUR_S // MINUTE_S:.0f} min"
    return f"{value // DAY_S:.0f} d {value % DAY_S // HOUR_S:.0f} h"


def between(start: str | None, end: str | None) -> str:
    """Return the time between two moments."""
    if not start or not end:
        return "–"
    return seconds((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def size(value: float | None) -> str:
    """Return a number of bytes in the largest fitting unit."""
    if value is None:
        return "–"
    for unit in SIZES:
        if value < SIZE_STEP or unit == SIZES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= SIZE_STEP
    raise AssertionError("the last unit fits everything")


def number(value: Any) -> str:
    """Return a measured number with four significant digits."""
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def result(value: Any, form: str) -> str:
    """Return a value of a result in the format of its column."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float) or not form:
        return number(value)
    if form.endswith("%") and abs(value) > SHARE_MAX:
        return number(value)
    return format(round(value) if form.endswith("d") else value, form)


def field_value(value: Any) -> str:
    """Return the value of a field of any type as people read it."""
    return ("true" if value else "false") if isinstance(value, bool) else number(value)


def dollars(value: float) -> str:
    """Return money: cents where they are enough, else four significant digits."""
    if 0 < value < CENTS_SHOWN_MIN:
        return f"< ${CENTS_SHOWN_MIN}"
    return f"${value:.2f}" if value == 0 or value >= 1 else f"${value:.4g}"


def count(value: float) -> str:
    """Return how many there are."""
    return f"{value:,.0f}"


def words(name: str) -> str:
    """Return the name of a field as words."""
    spaced = name.replace("_", " ").strip()
    return spaced[:1].upper() + spaced[1:]


def counted(value: float, most: float) -> str:
    """Return a count as text, with `+` if counting stopped at `most`."""
    return f"{count(value)}+" if value >= most else count(value)


def sentence(text: str) -> str:
    """Return a reason as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."


def cut(text: str, most: int = TEXT_SHOWN_CHARS) -> str:
    """Return the beginning of a long text, and how much is left out."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n… {left:,} more characters"


def laid_out(value: Any, most: int = TEXT_SHOWN_CHARS) -> str:
    """Return a value as indented JSON, and that there is more where it has more characters.

    The depth of nesting multiplies what is indented: a quarter of a mebibyte can become dozens.
    """
    pieces: list[str] = []
    left = most
    for piece in _LAYOUT.iterencode(value):
        left -= len(piece)
        if left < 0:
            return "".join([*pieces, piece[:left], "\n… more, which is not shown here"])
        pieces.append(piece)
    return "".join(pieces)


def idea_name(idea: Mapping[str, Any]) -> str:
    """Return the name of an idea for people, from the fields that it has."""
    for name in ("Title", "Name", "Short Hypothesis", "title", "name", "short_hypothesis"):
        text = idea.get(name)
        if isinstance(text, str) and text.strip():
            return text.strip()[:UNNAMED_CHARS_MAX]
    return "an idea without a name"


def unfinished(each: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of an unfinished idea: its name, why it was not finalised, and its fields."""
    idea = each.get("idea")
    number, why = each.get("number"), each.get("why")
    if not isinstance(idea, Mapping):
        fields = {name: value for name, value in each.items() if name not in ("idea", "number", "why")}
        idea = fields or None
    name = idea_name(idea) if idea else f"idea {number}" if isinstance(number, int) else idea_name({})
    return {"name": name, "why": why if isinstance(why, str) else "", "idea": idea}


def idea_fields(idea: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the seven fields of an idea, also those that are empty, then its other fields, each brief."""
    fields = brief_data({**dict.fromkeys(IDEA_FIELDS), **idea}, IDEA_FIELDS, TEXT_SHOWN_CHARS)
    return list(fields.items())


def percent(value: float | None) -> str:
    """Return a fraction of one as a percentage."""
    return "–" if value is None else f"{value:.0%}"


def note_answer(outcome: str, about: str, words: str) -> str:
    """Return what becomes of a note, or of what it is about, in one line."""
    return f"{f'{about}: ' if about else ''}{outcome.replace('_', ' ')}, {words}"


def in_one_line(values: Mapping[str, Any]) -> str:
    """Return the values of a row, or headline numbers, in one line."""
    told = list(values.items())[:VALUES_SHOWN_MAX]
    words = [f"{name} = {field_value(value)}" for name, value in told]
    return ", ".join([*words, "…"] if len(values) > len(told) else words)


def says(event: LoggedEvent) -> str:
    """Return an event's data in one line."""
    data = event.data
    match event.type:
        case "ai.run.status_changed":
            return f"{data['from'] or 'new'} → {data['to']} ({data['cause']}, by {data['by']})"
        case "ai.run.stage_progress":
            return f"{data['stage']} {percent(data['progress'])} {data.get('activity') or ''}"
        case "ai.run.stage_metric":
            return f"{data['stage']}: {data['name']} = {number(data['value'])}"
        case "ai.run.note_answered":
            words = note_answer(*(str(data.get(name) or "") for name in ("outcome", "about", "says")))
            return f"note {data['number']}: {words}"
        case "ai.result.recorded":
            return f"{data['set']} {data['key']}: {in_one_line(data['values'])}"
        case "ai.run.summarized":
            return in_one_line(data["values"])
        case "ai.run.usage":
            tokens = f"{data.get('prompt_tokens') or 0} + {data.get('completion_tokens') or 0} tokens"
            return f"{data['model']}: {tokens}" if data.get("model") else "a stretch of the pod's time"
        case name if name in _LINES:
            return asked(
                lambda: str(_LINES[name](data)), lambda error: f"its kind has no words for it ({error})"
            )
    for name in ("message", "summary", "plan", "name", "node", "stage", "verdict"):
        if data.get(name):
            return str(data[name])
    return ""


def level(event: LoggedEvent) -> str | None:
    """Return the level of a log line as the filter names it; None of any other event."""
    if event.type != LOG:
        return None
    text = event.data.get("level", "info")
    return "warn" if text == "warning" else text if text in LEVELS else None


def lines(text: str | None) -> Markup:
    """Return text with its line breaks."""
    return Markup("<br>").join(escape(line) for line in (text or "").splitlines())


FILTERS: Final = {
    "says": says,
    "level": level,
    "status": status,
    "moment": moment,
    "clock": clock,
    "seconds": seconds,
    "size": size,
    "number": number,
    "result": result,
    "field_value": field_value,
    "percent": percent,
    "lines": lines,
    "note_answer": note_answer,
    "dollars": dollars,
    "count": count,
    "words": words,
    "sentence": sentence,
    "counted": counted,
    "is_number": is_number,
    "cut": cut,
    "laid_out": laid_out,
    "idea_name": idea_name,
    "idea_fields": idea_fields,
    "unfinished": unfinished,
}
