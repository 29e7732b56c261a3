"""A rebuild writes what a plan says while nobody else moves the run, and tells what it cannot write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from control_plane.store.verify.collecting import Unjudged
from control_plane.store.verify.evidence import Evidence
from control_plane.verify import rebuilder
from control_plane.verify.rebuilder import MISSES_MAX, Rebuilder
from control_plane.verify.repair import UNWRITABLE
from control_plane.verify.verifier import TRIES_MAX
from events.runtime.errors import Rejected, Transient
from events.testing import EPOCH, RUN_ID
from events.text.attempt_id import AttemptId
from tests.unit.control_plane.test_comparison import BY_HAND, DOCUMENTS, RUN, make_evidence
from tests.unit.control_plane.test_repair import LATE
from tests.unit.control_plane.test_verifier import Reads

SOUND: Final = make_evidence()
# What a plan inserts, changes and removes.
GONE: Final = make_evidence(stages=DOCUMENTS["stages"][1:])
ALTERED: Final = make_evidence(artifacts=[{**DOCUMENTS["artifacts"][0], "size": 4}])
EXTRA: Final = make_evidence(stages=[*DOCUMENTS["stages"], {**DOCUMENTS["stages"][0], "_id": "of nobody"}])
DECIDED: Final = replace(SOUND, run={**RUN, "priority": BY_HAND})  # which no rebuild writes


@dataclass
class Store:
    """Takes writes, or refuses or misses them; a write that is made is seen at the next look."""

    answer: Callable[[], bool] = lambda: True
    written: list[str] = field(default_factory=list)

    async def insert(self, collection: str, document: Mapping[str, Any]) -> bool:
        return self._write("insert", collection, document)

    async def change(self, collection: str, was: Mapping[str, Any], sets: Any, drops: Any) -> bool:
        return self._write("change", collection, was)

    async def remove(self, collection: str, was: Mapping[str, Any]) -> bool:
        return self._write("remove", collection, was)

    def _write(self, how: str, collection: str, document: Mapping[str, Any]) -> bool:
        self.written.append(f"{how} {collection} {document['_id']}")
        return self.answer()


@dataclass
class Application:
    """Applies events up to a position, or fails."""

    answers: list[int | Exception]
    asked: list[AttemptId] = field(default_factory=list)

    async def apply(self, attempt_id: AttemptId) -> int:
        self.asked.append(attempt_id)
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilder, "LOOK_AGAIN_S", 0.001)


@dataclass
class Scene:
    reads: Reads
    store: Store = field(default_factory=Store)
    application: Application = field(default_factory=lambda: Application([]))

    async def rebuild(self, run_id: str = RUN_ID, **fields: Any) -> tuple[list[str], list[str]]:
        """Return what was written, and what was left, in words."""
        parts: tuple[Any, ...] = (self.reads, self.store, self.application)
        found = await Rebuilder(*parts, **fields).rebuild("runs", run_id)
        return found.done, found.left


async def test_a_run_as_its_log_tells_is_looked_at_once_and_left_alone() -> None:
    scene = Scene(Reads())
    assert await scene.rebuild() == ([], [])
    assert (scene.reads.looked, scene.store.written) == (1, [])


@pytest.mark.parametrize(
    ("evidence", "written"),
    [
        (GONE, f"insert stages {DOCUMENTS['stages'][0]['_id']}"),
        (ALTERED, f"change artifacts {DOCUMENTS['artifacts'][0]['_id']}"),
        (EXTRA, "remove stages of nobody"),
    ],
)
async def test_what_is_unlike_the_log_is_written_and_looked_at_again(
    evidence: Evidence, written: str
) -> None:
    scene = Scene(Reads([evidence, SOUND]))
    done, left = await scene.rebuild()
    assert (len(done), left, scene.store.written, scene.reads.looked) == (1, [], [written], 2)


async def test_a_dry_run_and_what_nobody_may_write_are_told() -> None:
    dry = Scene(Reads([GONE]))
    done, left = await dry.rebuild(is_dry=True)
    assert (len(done), left, dry.store.written, dry.reads.looked) == (1, [], [], 1)
    told = Scene(Reads([DECIDED]))
    done, (left_over,) = await told.rebuild()
    assert (done, told.store.written, told.reads.looked) == ([], [], 1)
    assert BY_HAND in left_over


async def test_nothing_is_written_of_what_was_read_while_the_run_moved() -> None:
    scene = Scene(Reads([GONE, SOUND], moves=[1, 2, 3]))
    assert await scene.rebuild() == ([], [])
    assert scene.store.written == []
    moving = Scene(Reads([GONE], moves=iter(range(1000))))
    done, (left,) = await moving.rebuild()
    assert (done, moving.store.written, moving.reads.looked) == ([], [], TRIES_MAX)
    assert left.startswith("it moves too fast, run it again: stages ")


async def test_a_young_run_is_left_to_application_for_a_while() -> None:
    young = replace(GONE, now=EPOCH)
    patient = Scene(Reads([young, young, SOUND]))
    assert await patient.rebuild(patience_s=10.0) == ([], [])
    assert patient.store.written == []
    hasty = Scene(Reads([young, SOUND]))
    assert len((await hasty.rebuild())[0]) == 1


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_log_that_is_open_is_given_a_moment_behind_the_writes(
    is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    found = replace(GONE, run={**GONE.run, "logOpen": is_open})
    done, _ = await Scene(Reads([found, SOUND])).rebuild(patience_s=10.0)
    assert (len(done), len(pauses)) == (1, int(is_open))


@pytest.mark.parametrize("is_refused", [True, False])
async def test_a_write_that_the_store_does_not_take_is_told_and_not_tried_for_ever(is_refused: bool) -> None:
    def answer() -> bool:
        if is_refused:
            raise Rejected("too_large", "no document is that large")
        return False

    scene = Scene(Reads([GONE]), Store(answer))
    done, left = await scene.rebuild()
    assert len(scene.store.written) == (1 if is_refused else MISSES_MAX)
    assert done == []
    assert left[0].startswith(UNWRITABLE)


async def test_what_is_late_is_asked_of_the_application_and_told_where_it_got_there() -> None:
    scene = Scene(Reads([LATE, LATE, SOUND]), application=Application([7, 8]))
    assert await scene.rebuild() == (["events 8 to 8 of attempt 2 are applied"], [])
    assert scene.application.asked == [AttemptId(RUN_ID, 2)] * 2


@pytest.mark.parametrize(
    "error", [Transient("contended", "another applies"), KeyError("status"), TypeError("no text")]
)
async def test_an_application_that_fails_is_asked_again(error: Exception) -> None:
    scene = Scene(Reads([LATE, LATE, SOUND]), application=Application([error, 8]))
    done, left = await scene.rebuild()
    assert (len(done), left) == (1, [])


async def test_an_outage_ends_a_rebuild() -> None:
    scene = Scene(Reads([LATE]), application=Application([Transient("store", "away")]))
    with pytest.raises(Transient):
        await scene.rebuild()


@pytest.mark.parametrize(
    ("look", "run_id", "words"),
    [
        (None, RUN_ID, None),
        (None, "r\ufffd", "runs: its id is no text"),
        (Unjudged("too-large", "it has more"), RUN_ID, "too-large: it has more"),
        (KeyError("status"), RUN_ID, "a stored field is missing or of another type: KeyError('status')"),
        (KeyError("x" * 10_000), RUN_ID, "a stored field"),
    ],
)
async def test_what_cannot_be_read_is_told_in_short(look: Any, run_id: str, words: str | None) -> None:
    done, left = await Scene(Reads([look])).rebuild(run_id)
    assert done == []
    assert len(left) == (words is not None)
    assert all(each.startswith(words or "") and len(each) < 2_100 for each in left)
