"""No document bounds what an audit reads of a store: each is read, told, or left out with a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from control_plane.store.verify.collecting import Unjudged
from control_plane.store.verify.decoding import decoded
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.queries import BESIDE, VerifyReads
from events.catalog import RunLog
from events.testing import EPOCH, RUN_ID, make_line
from tests.unit.control_plane.test_comparison import (
    DECISIONS,
    DOCUMENTS,
    RUN,
    STORED_EVENTS,
    event,
    logged,
)

LETTER: Final = {"_id": "l", "at": EPOCH, "code": "bad_json", "line": "{", "runId": RUN_ID}
SOUND: Final[Mapping[str, Sequence[Any]]] = {
    "runs": [RUN],
    "events": [*map(logged, DECISIONS), *STORED_EVENTS],
    "dead_letters": [LETTER],
    **DOCUMENTS,
}


class Reads(VerifyReads):
    """Reads of documents in memory, each in an order of its own."""

    __slots__ = ("stored",)

    def __init__(self, stored: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        object.__setattr__(self, "stored", stored)

    async def _taken(self, run_ids: Any, collection: str = "") -> set[str]:
        return set()

    async def _taken_of(self, run_id: str) -> dict[str, Any]:
        return {}

    async def collection_of(self, run_id: str) -> str | None:
        return "runs" if any(each["_id"] == run_id for each in self.stored["runs"]) else None

    async def _now(self, collection: str, run_ids: Sequence[str]) -> datetime | None:
        there = {each["_id"] for each in self.stored[collection]}
        return EPOCH if there & {*run_ids} else None

    async def _existing(self, run_ids: Sequence[str]) -> set[str]:
        return {each["_id"] for each in self.stored["runs"]} & {*run_ids}

    async def _with_rows(self, run_ids: Sequence[str]) -> set[str]:
        return set()

    async def _lease_watch(self, collection: str) -> None:
        return None

    async def _has_text(self, collection: str, field: str) -> bool:
        return any(isinstance(each.get(field), str) for each in self.stored.get(collection, ()))

    async def _walk(
        self, collection: str, field: str, direction: int
    ) -> AsyncIterator[tuple[Mapping[str, Any], int]]:
        for each in [*self.stored.get(collection, ())][::direction]:
            yield each, 1

    async def _read(
        self, collection: str, query: Any, order: Sequence[tuple[str, int]] = ()
    ) -> AsyncIterator[tuple[Mapping[str, Any], int]]:
        for each in self.stored.get(collection, ()):
            wanted = {name: value for name, value in query.items() if not isinstance(value, Mapping)}
            there = {
                name: value["$exists"]
                for name, value in query.items()
                if isinstance(value, Mapping) and "$exists" in value
            }
            named = query.get("_id")
            if isinstance(named, Mapping) and each["_id"] not in named["$in"]:
                continue
            if all(each.get(name) == value for name, value in wanted.items()) and all(
                (name in each) == is_there for name, is_there in there.items()
            ):
                yield each, 1


async def evidence(**stored: Sequence[Any]) -> Evidence:
    found = await Reads({**SOUND, **stored}).evidence("runs", RUN_ID)
    assert found is not None
    return found


async def test_everything_that_is_stored_of_a_run_is_evidence() -> None:
    found = await evidence()
    assert (found.run, found.now, found.broken, found.is_log_read) == (RUN, EPOCH, [], True)
    assert [*found.dead_letters] == [LETTER]
    for collection in DOCUMENTS:
        stored = {**found.beside, "attempts": found.attempts}[collection]
        assert [*stored] == [*DOCUMENTS[collection]], collection
    assert len(found.decisions) == len(DECISIONS)


@pytest.mark.parametrize("collection", [*DOCUMENTS])
async def test_a_document_of_another_shape_is_told_and_kept_for_a_rebuild(collection: str) -> None:
    odd = {"_id": 5, "runId": RUN_ID}
    found = await evidence(**{collection: [*DOCUMENTS[collection], odd]})
    assert len(found.broken) == 1
    assert [*found.misshapen[collection]] == [odd]


async def test_a_line_of_another_shape_makes_a_log_unread() -> None:
    line = {**STORED_EVENTS[-1], "_id": "odd", "hash": 5}
    found = await evidence(events=[*SOUND["events"], line])
    assert (len(found.broken), found.is_log_read) == (1, False)


@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_a_line_without_an_effect_is_kept_where_a_refusal_has_to_be_compared_with_it(
    is_asked_for: bool,
) -> None:
    quiet = event(1, 3, RunLog(message="said"))
    letter = {**LETTER, "code": "conflict"}
    if is_asked_for:
        line = make_line(RunLog(message="said"), sequence=3, run_id=RUN_ID, attempt=1)
        letter["line"] = line.decode() if isinstance(line, bytes) else line
    found = await evidence(events=[*SOUND["events"], quiet], dead_letters=[letter])
    assert (quiet["_id"] in found.hashes) == is_asked_for


async def test_a_run_of_another_shape_is_judged_by_nothing_else() -> None:
    with pytest.raises(Unjudged, match="revision"):
        await evidence(runs=[{**RUN, "revision": "seven"}])


async def test_a_run_that_is_not_there_has_no_evidence() -> None:
    assert await Reads({**SOUND, "runs": []}).evidence("runs", RUN_ID) is None


async def test_of_files_those_that_can_be_read_are_compared() -> None:
    odd = [{"_id": "a", "runId": RUN_ID}, {**DOCUMENTS["artifacts"][0], "size": "three"}]
    reads = Reads({**SOUND, "artifacts": [*odd, *DOCUMENTS["artifacts"]]})
    assert [each async for each in reads.artifacts(RUN_ID)] == [*DOCUMENTS["artifacts"]]


async def test_lines_of_nobody_are_those_of_no_run_or_of_one_that_does_not_exist() -> None:
    letters = [LETTER, *({**LETTER, "_id": each, "runId": each} for each in ("none", None, 5))]
    found = Reads({**SOUND, "dead_letters": letters}).letters_of_nobody()
    assert [each["runId"] async for each in found] == ["none", None]


@pytest.mark.parametrize("collection", ["runs", "events", *BESIDE])
async def test_ids_that_are_no_text_are_told_at_both_ends_of_their_order(collection: str) -> None:
    names: tuple[Any, ...] = (5, "a", "b", b"c")
    documents = [{"_id": each, "runId": RUN_ID} for each in names]
    told = [each async for each in Reads({collection: documents}).misnamed()]
    assert told == [(collection, "5: _id is 5"), (collection, "b'c': _id is b'c'")]


@pytest.mark.parametrize("collection", ["events", *BESIDE])
async def test_run_ids_that_are_no_text_are_told_but_of_a_line_that_names_none(collection: str) -> None:
    documents = [{"_id": "x", "runId": each} for each in (None, RUN_ID, 7.5)]
    told = [words async for _, words in Reads({collection: documents}).misnamed()]
    expected = ["x: runId is None", "x: runId is 7.5"]
    assert told == (expected[1:] if collection == "dead_letters" else expected)


def spoiled(**fields: Any) -> RawBSONDocument:
    """Return a document in which a text has become bytes that no type has."""
    body = bson.encode({"_id": "x", "inner": {"text": "abc"}, **fields})
    return RawBSONDocument(body.replace(b"\x02text\x00", b"\x21text\x00"))


def test_a_document_that_cannot_be_decoded_has_its_id_alone() -> None:
    found, size = decoded(spoiled())
    assert (found, size) == ({"_id": "x"}, len(spoiled().raw))


def test_a_document_that_is_nested_without_end_is_read_or_has_its_id_alone() -> None:
    # built from the inside: an encoder would not go so deep
    body = b"\x05\x00\x00\x00\x00"
    for _ in range(50_000):
        body = (len(body) + 8).to_bytes(4, "little") + b"\x03a\x00" + body + b"\x00"
    whole = b"\x02_id\x00\x02\x00\x00\x00x\x00" + b"\x03a\x00" + body
    raw = (len(whole) + 5).to_bytes(4, "little") + whole + b"\x00"
    found, size = decoded(RawBSONDocument(raw))
    assert (found["_id"], size) == ("x", len(raw))
