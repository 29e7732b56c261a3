"""A stored document whose types are not those of the fleet is named, whichever field it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

import pytest

from control_plane.store.verify.queries import OF_KINDS
from control_plane.store.verify.shapes import DEPTH_MAX, SHOWN_CHARS_MAX, VALUE_CHARS_MAX, name, problem
from events.kinds.declaring.queues import QUEUES
from events.testing import EPOCH, RUN_ID
from tests.unit.control_plane.test_comparison import (
    DECISIONS,
    DOCUMENTS,
    RUN,
    STORED_EVENTS,
    journaled,
    logged,
)

Json = dict[str, Any]
SEAL: Final = {"attempt": 2, "last": 8, "whole": True, "root": "r"}
ENTRY: Final[Json] = {
    **journaled(DECISIONS[5]),
    "set": {
        "attempt": 2, "claimedBy": "pod/2", "lastEventSeq": 8, "settled": {"last": 8, "root": "r"},
        "error": {"code": "C", "message": "m"}, "sealed": SEAL,
        "humanVerdict": {"verdict": "pass", "notes": None, "reviewer": "me"},
    },
}  # fmt: skip
SOUND: Final[Mapping[str, Json]] = {
    "runs": {
        **RUN, "lease": {"until": EPOCH}, "sealed": SEAL, "settled": {"last": 8, "root": "r"},
        "journal": [ENTRY], "logIncomplete": {"from": 3, "to": 4},
    },
    "events": dict(STORED_EVENTS[0]),
    "decisions": {**logged(DECISIONS[5]), "data": ENTRY},
    "dead_letters": {
        "_id": "l", "at": EPOCH, "code": "bad_json", "runId": RUN_ID, "attempt": 1, "sequence": 2,
        "line": "{}", "principal": "p",
    },
    **{collection: dict(documents[0]) for collection, documents in DOCUMENTS.items()},
}  # fmt: skip
# Of each sort of field: values that it does not take.
TEXT: Final = (5, None, [])
NO_TEXT: Final = (5, [], {})  # which may be missing
COUNT: Final = (-1, "1", 1.5, None)
POSITIVE: Final = (0, *COUNT)
MOMENT: Final = ("today", 5, None)
PART: Final = (5, "x", [])
FLAG: Final = ("yes", 1, None)
OF_ENTRY: Final = {
    "n": POSITIVE, "cause": TEXT, "by": TEXT, "at": MOMENT, "from": NO_TEXT, "to": TEXT, "attempt": COUNT,
    "seq": COUNT, "set": (*PART, None), "set.attempt": COUNT, "set.claimedBy": NO_TEXT,
    "set.lastEventSeq": COUNT, "set.settled": PART, "set.settled.last": COUNT, "set.settled.root": NO_TEXT,
    "set.error": PART,
    "set.error.code": NO_TEXT, "set.error.message": NO_TEXT, "set.humanVerdict": PART,
    "set.humanVerdict.verdict": TEXT, "set.humanVerdict.notes": NO_TEXT, "set.humanVerdict.reviewer": NO_TEXT,
    "set.sealed": PART, "set.sealed.attempt": COUNT, "set.sealed.last": COUNT, "set.sealed.whole": FLAG,
    "set.sealed.root": NO_TEXT,
}  # fmt: skip
OF_ATTEMPT: Final = {"_id": TEXT, "runId": TEXT, "attempt": COUNT}
FIELDS: Final[Mapping[str, Mapping[str, tuple[Any, ...]]]] = {
    "runs": {
        "_id": TEXT, "status": TEXT, "revision": COUNT, "attempt": COUNT, "lastEventSeq": COUNT,
        "lease": PART, "lease.until": MOMENT[:2], "settled": PART, "settled.last": COUNT, "sealed": PART,
        "sealed.last": COUNT,
        "failures": (*PART, None, {"app": -1}, {"app": "x"}), "journal": (5, None, {}, [5]), "logOpen": FLAG,
        "logIncomplete": PART, "logIncomplete.from": COUNT, "logIncomplete.to": COUNT, "createdAt": MOMENT,
        **{f"journal.0.{field}": values for field, values in OF_ENTRY.items()},
    },
    "events": {
        **OF_ATTEMPT, "sequence": POSITIVE, "ceId": TEXT, "source": TEXT, "type": TEXT, "time": NO_TEXT,
        "data": (*PART, None), "hash": TEXT, "receivedAt": MOMENT,
    },
    "decisions": {
        **OF_ATTEMPT, "revision": POSITIVE, "hash": TEXT, "receivedAt": MOMENT, "data": (*PART, None),
        **{f"data.{field}": values for field, values in OF_ENTRY.items()},
    },
    "attempts": {**OF_ATTEMPT, "pod": NO_TEXT, "lastEventSeq": COUNT[:3], "revision": COUNT[:3]},
    "stages": {**OF_ATTEMPT, "name": TEXT},
    "artifacts": {**OF_ATTEMPT, "name": TEXT, "key": TEXT, "size": COUNT, "sha256": TEXT},
    "validations": OF_ATTEMPT,
    "ideas": OF_ATTEMPT,
    "dead_letters": {
        "_id": TEXT, "at": MOMENT, "code": TEXT, "runId": NO_TEXT, "attempt": ("1", 1.5),
        "sequence": ("1", 1.5), "line": TEXT, "principal": TEXT,
    },
}  # fmt: skip


def collection_of(sort: str) -> str:
    return "events" if sort == "decisions" else sort


def with_value(document: Mapping[str, Any], path: str, value: Any) -> Json:
    """Return a copy of `document` that has `value` at a path of names and places."""
    changed = deepcopy(dict(document))
    *names, last = path.split(".")
    inner: Any = changed
    for each in names:
        inner = inner[int(each) if isinstance(inner, list) else each]
    inner[last] = value
    return changed


def wrongs() -> Iterator[tuple[str, str, Any]]:
    for sort, fields in FIELDS.items():
        for path, values in fields.items():
            yield from ((sort, path, value) for value in values)


def test_sound_documents_have_no_problem() -> None:
    for sort, document in SOUND.items():
        assert problem(collection_of(sort), document) is None, sort
    for queue in QUEUES:
        assert problem(queue, SOUND["runs"]) is None


def test_a_value_of_another_type_or_beyond_its_bounds_is_named_in_every_field() -> None:
    unseen = [
        (sort, path, value)
        for sort, path, value in wrongs()
        if problem(collection_of(sort), with_value(SOUND[sort], path, value)) is None
    ]
    assert unseen == []


def test_every_queue_and_every_document_of_a_kind_has_a_shape() -> None:
    for collection in (*QUEUES, *OF_KINDS):
        assert problem(collection, {"_id": "x"}) is not None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), EPOCH, b"x", 1j, object()])
def test_a_value_that_no_json_can_say_is_named_wherever_it_is_in_the_data_of_an_event(value: Any) -> None:
    for data in ({"a": value}, {"a": [1, value]}, {"a": {"b": [{"c": value}]}}):
        told = problem("events", {**SOUND["events"], "data": data})
        assert told is not None
        assert "which no JSON can say" in told
    assert problem("events", {**SOUND["events"], "data": {"a": [1, "x", None, True, 0.5, {"b": []}]}}) is None


def nested(depth: int, *, in_lists: bool) -> Any:
    found: Any = {}
    for _ in range(depth):
        found = [found] if in_lists else {"a": found}
    return found


@pytest.mark.parametrize("in_lists", [True, False])
def test_what_is_nested_too_deep_is_named(in_lists: bool) -> None:
    for depth, told in ((DEPTH_MAX - 10, None), (DEPTH_MAX, "it is nested too deep"), (3_000, True)):
        found = problem("stages", {**SOUND["stages"], "extra": nested(depth, in_lists=in_lists)})
        assert found == told if told is not True else found is not None
    assert DEPTH_MAX < 300, "each level of a comparison takes some of the stack"


def test_words_about_a_value_are_short_however_long_it_is() -> None:
    long = "x" * 10_000
    told = problem("events", {**SOUND["events"], "data": {"a": long.encode()}})
    assert told is not None
    assert len(told) < VALUE_CHARS_MAX + 50
    told = problem("stages", {**SOUND["stages"], "attempt": {long: 1}})
    assert told is not None
    assert len(told) <= SHOWN_CHARS_MAX
    assert [len(name({"_id": each})) for each in (long, [long], {"a": long})] == [SHOWN_CHARS_MAX] * 3
    assert (name({"_id": 5}), name({})) == ("5", "None")
