"""A rebuild writes over what it read, and over nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pymongo.errors import DuplicateKeyError, OperationFailure

from control_plane.store.verify.repairs import UNAUTHORIZED, Repairs
from events.kinds.declaring.queues import RUNS
from events.runtime.errors import ConfigError, Rejected

Json = dict[str, Any]
# What decisions and events move.
MOVES: Final = (
    "revision", "attempt", "status", "lastEventSeq", "currentStage", "startedAt", "validation",
)  # fmt: skip
STAGE: Final[Mapping[str, Any]] = {"_id": "s", "runId": "R", "seq": 3, "name": "fit", "$a.b": 1}
RUN: Final[Mapping[str, Any]] = {"_id": "R", **dict.fromkeys(MOVES, 1), "lease": 1}


def value(expression: Any, root: Mapping[str, Any]) -> Any:
    """Return the value of an expression, of those that a rebuild uses, as MongoDB has it."""
    match expression:
        case {"$literal": literal}:
            return literal
        case {"$eq": [one, other]}:
            return value(one, root) == value(other, root)
        case {"$and": several}:
            return all(value(each, root) for each in several)
        case {"$ifNull": [wanted, default]}:
            found = value(wanted, root)
            return value(default, root) if found is None else found
        case {"$unsetField": {"field": named, "input": kept}}:
            gone = value(named, root)
            assert "$" not in gone or named != gone, "a name with a dollar is an expression"
            return {name: each for name, each in value(kept, root).items() if name != gone}
        case "$$ROOT":
            return root
        case str() if expression.startswith("$"):
            return root.get(expression[1:])
        case _:
            return expression


@dataclass
class Collection:
    """Documents by their ids; `meanwhile` happens between a look and the write that follows."""

    documents: dict[str, Json] = field(default_factory=dict)
    meanwhile: Callable[[], None] = lambda: None

    def _found(self, condition: Json) -> Json | None:
        found = self.documents.get(condition["_id"])
        return found if found is None or value(condition.get("$expr", True), found) else None

    async def insert_one(self, document: Json) -> None:
        if document["_id"] in self.documents:
            raise DuplicateKeyError("there is one")
        self.documents[document["_id"]] = document

    async def find_one(self, condition: Json) -> Json | None:
        found = deepcopy(self._found(condition))
        self.meanwhile()
        return found

    async def replace_one(self, condition: Json, document: Json) -> Any:
        is_found = self._found(condition) is not None
        if is_found:
            self.documents[document["_id"]] = dict(document)
        return SimpleNamespace(matched_count=int(is_found))

    async def update_one(self, condition: Json, pipeline: list[Json]) -> Any:
        found = self._found(condition)
        if found is None:
            return SimpleNamespace(matched_count=0)
        for step in pipeline:
            if "$replaceWith" in step:
                found = value(step["$replaceWith"], found)
            else:
                found = {**found, **{name: value(each, found) for name, each in step["$set"].items()}}
        self.documents[condition["_id"]] = found
        return SimpleNamespace(matched_count=1)

    async def delete_one(self, condition: Json) -> Any:
        is_found = self._found(condition) is not None
        if is_found:
            del self.documents[condition["_id"]]
        return SimpleNamespace(deleted_count=int(is_found))


def store(**collections: Collection) -> Repairs:
    return Repairs(collections)  # type: ignore[arg-type] # collections that stand in for a database


def holding(*documents: Mapping[str, Any]) -> Collection:
    return Collection({each["_id"]: dict(each) for each in documents})


async def test_a_document_is_changed_and_removed_as_it_was_read() -> None:
    stages = holding(STAGE)
    sets = {"name": "$seq", "more": {"$literal": 1}}
    assert await store(stages=stages).change("stages", STAGE, sets, ["$a.b"])
    changed = {"_id": "s", "runId": "R", "seq": 3, **sets}
    assert stages.documents == {"s": changed}, "names and values are taken as they are"
    assert await store(stages=stages).change("stages", changed, {}, ["more"])
    assert await store(stages=stages).remove("stages", stages.documents["s"])
    assert stages.documents == {}


@pytest.mark.parametrize("moved", [{"seq": 4}, {"new": 1}, {"_id": "t"}])
async def test_a_document_that_moved_since_it_was_read_is_left_alone(moved: Json) -> None:
    stages = holding({**STAGE, **moved})
    known = deepcopy(stages.documents)
    assert not await store(stages=stages).change("stages", STAGE, {"name": "x"}, [])
    assert not await store(stages=stages).remove("stages", STAGE)
    assert stages.documents == known


@pytest.mark.parametrize("name", MOVES)
async def test_a_run_that_was_decided_or_applied_since_is_left_alone(name: str) -> None:
    for now in ({**RUN, name: 2}, {each: RUN[each] for each in RUN if each != name}):
        runs = holding(now)
        assert not await store(runs=runs).change(RUNS.collection, RUN, {"startedAt": 3}, [])
        assert runs.documents == {"R": now}
    without = {each: RUN[each] for each in RUN if each != name}
    assert await store(runs=holding(without)).change(RUNS.collection, without, {"startedAt": 3}, [])


async def test_a_run_that_was_only_renewed_since_is_written() -> None:
    runs = holding({**RUN, "lease": 2})
    assert await store(runs=runs).change(RUNS.collection, RUN, {"startedAt": 3}, [])
    assert runs.documents["R"] == {**RUN, "lease": 2, "startedAt": 3}


async def test_what_is_missing_is_stored_unless_somebody_else_was_first() -> None:
    stages = Collection()
    assert await store(stages=stages).insert("stages", STAGE)
    assert not await store(stages=stages).insert("stages", {**STAGE, "seq": 9})
    assert stages.documents == {"s": STAGE}


async def test_a_document_under_our_id_that_is_said_to_be_of_another_run_gives_way() -> None:
    foreign = {**STAGE, "runId": "of another"}
    stages = holding(foreign)
    assert await store(stages=stages).insert("stages", STAGE)
    assert stages.documents == {"s": STAGE}
    for then in ({**foreign, "seq": 9}, None):
        moving = holding(foreign)
        moving.meanwhile = lambda into=moving.documents, then=then: (  # type: ignore[misc] # of defaults
            into.pop("s") if then is None else into.update(s=then)
        )
        assert not await store(stages=moving).insert("stages", STAGE)
        assert moving.documents == ({} if then is None else {"s": then})


@pytest.mark.parametrize(("code", "raised"), [(UNAUTHORIZED, ConfigError), (2, Rejected), (None, Rejected)])
async def test_a_write_that_the_store_refuses_is_told_by_what_helps(
    code: int | None, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> Any:
        raise OperationFailure("no " + "x" * 1_000, code)

    for name in ("insert_one", "update_one", "delete_one"):
        monkeypatch.setattr(Collection, name, refuse)
    repairs = store(stages=holding(STAGE))
    for writing in (
        repairs.insert("stages", STAGE),
        repairs.change("stages", STAGE, {"name": "x"}, []),
        repairs.remove("stages", STAGE),
    ):
        with pytest.raises(raised) as told:
            await writing
        assert raised is ConfigError or len(str(told.value)) < 300
