"""What an item becomes: its key, its row of results, and the file with its whole texts; pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from events.catalog import Price
from events.kinds.results import KEY_BYTES_MAX, TEXT_BYTES_MAX, Value
from stages.kinds.benchmark.engine import Asking, Evaluated, tokens_of
from stages.kinds.benchmark.suites.item import Item
from stages.models.prices import cost_usd

CUT: Final = " […]"
FILE_CHARS_MAX: Final = 100
DIGEST_CHARS: Final = 12


def askings_of(suite: str, items: Sequence[Item], epochs: int) -> Iterator[Asking]:
    """Yield what is asked: each item once an epoch, under a key of its own."""
    for epoch in range(1, epochs + 1):
        for item in items:
            yield Asking(key_of(suite, item.id, epoch if epochs > 1 else None), item, epoch)


def key_of(suite: str, item: str, epoch: int | None) -> str:
    """Return the key of an item's row: its suite, its id, and which time it is asked."""
    key = f"{suite}/{item}" + (f"#{epoch}" if epoch else "")
    if len(key.encode()) <= KEY_BYTES_MAX:
        return key
    return f"{cut(key, KEY_BYTES_MAX - DIGEST_CHARS - 1)}~{_digest(key)}"


def file_of(asking: Asking, suite: str) -> str:
    """Return the name of the file with an item's texts: safe, and another one for each key."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", asking.item.id)[:FILE_CHARS_MAX].lstrip(".")
    return f"items/{suite}/{safe}-{_digest(asking.key)}.json"


def row_of(asking: Asking, found: Evaluated, suite: str, price: Price | None, lost: int) -> dict[str, Value]:
    """Return the row of an item; texts are cut, tokens and cost are those of all its requests."""
    item, score, answer = asking.item, found.score, found.answer
    prompt, completion = (0, 0) if answer is None else tokens_of(answer)
    costs = [] if answer is None else [cost_usd(price, each) for each in answer.usages]
    known = [each for each in costs if each is not None]
    values: dict[str, Value] = {
        "suite": suite,
        "score": score.value if score.outcome != "error" else None,
        "outcome": score.outcome,
        "seconds": round(found.seconds, 3),
        "cost_usd": sum(known) if known else None,
        "tokens": prompt + completion,
        "subject": item.subject,
        "difficulty": item.difficulty,
        "item": item.id,
        "epoch": asking.epoch,
        "verdict": score.verdict,
        "parsed": score.parsed,
        "expected": item.expected,
        "answer": None if answer is None else answer.text,
        "why": score.why,
        "note": item.note,
        "is_cut_off": None if answer is None else answer.is_cut_off,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "lost_requests": lost,
        "question": _digest(f"{item.system}\0{item.prompt}"),
    }
    return {name: cut(value) if isinstance(value, str) else value for name, value in values.items()}


def text_of(asking: Asking, found: Evaluated) -> str:
    """Return the whole texts of an item as JSON: whatever they hold, each stands by itself."""
    item, score = asking.item, found.score
    parts = {
        "System": item.system,
        "Prompt": item.prompt,
        "Expected": item.expected,
        "Answer": "" if found.answer is None else found.answer.text,
        "Parsed": score.parsed,
        "Outcome": f"{score.outcome}{f' ({score.verdict})' if score.verdict else ''}",
        "Why": score.why,
        "Note": item.note,
    }
    return (
        json.dumps({name: text for name, text in parts.items() if text}, ensure_ascii=False, indent=1) + "\n"
    )


def cut(text: str, most: int = TEXT_BYTES_MAX) -> str:
    """Return a text of at most `most` bytes; one that was cut says so at its end."""
    clean = text.encode("utf-8", "replace")
    if len(clean) <= most:
        return clean.decode()
    return clean[: most - len(CUT.encode())].decode(errors="ignore") + CUT


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:DIGEST_CHARS]
