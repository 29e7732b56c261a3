"""An audit tells each wrong that it sees, looks again where something moves, and ends by no document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar, Final

import pytest

from control_plane.store.verify.collecting import Unjudged
from control_plane.store.verify.evidence import Evidence, Quiet
from control_plane.verify import verifier
from control_plane.verify.verifier import (
    MESSAGE_CHARS_MAX,
    TRIES_MAX,
    Finding,
    Verifier,
    is_young,
    judge,
)
from events.runtime.errors import Rejected, Transient
from events.testing import EPOCH, RUN_ID
from tests.unit.control_plane.rows import Rows
from tests.unit.control_plane.test_comparison import BY_HAND, DECISIONS, RUN, journaled, make_evidence

OTHER: Final = "another"
SOUND: Final = make_evidence()
ALTERED: Final = replace(SOUND, run={**RUN, "startedAt": BY_HAND})  # which only a replay sees
BROKEN: Final = replace(SOUND, broken=("stages s: no name",))
NOTED: Final = replace(SOUND, run={**RUN, "logIncomplete": {"from": 9, "to": 9}})
YOUNG: Final = replace(ALTERED, now=EPOCH)
# What a walk has to tell, each of several of its sort.
LETTER: Final = {"_id": "l", "at": EPOCH, "code": "bad_json", "line": '{"whole": 1}', "runId": None}


class NoGroups:
    """A fleet without groups."""

    async def names(self) -> AsyncIterator[str]:
        for each in ():
            yield each


@dataclass
class Reads:
    """What is stored, as the verifier reads it; of several looks at a run each has its own evidence."""

    HELD: ClassVar[Mapping[str, Any]] = {"held": True}

    looks: Sequence[Evidence | Exception | None] = (SOUND,)
    moves: Iterable[object] = ()
    files: Sequence[Mapping[str, Any]] = ()
    tokens: Sequence[tuple[str, list[str]]] = ()
    pods: Sequence[Sequence[tuple[str, list[str]]]] = ()
    names: Sequence[tuple[str, str]] = ()
    specless: Sequence[str] = ()
    ownerless: Sequence[tuple[str, str]] = ()
    letters: Sequence[Mapping[str, Any]] = ()
    stored_rows: Rows = field(default_factory=Rows)
    looked: int = 0
    asked: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._positions = iter(self.moves)
        self._pods = iter(self.pods)

    @property
    def groups(self) -> NoGroups:
        return NoGroups()

    async def pages(self, only: str | None = None) -> AsyncIterator[tuple[str, list[str]]]:
        self.asked.append(only)
        yield "runs", [only or RUN_ID]

    async def positions(self, collection: str, run_ids: Sequence[str]) -> Mapping[str, object]:
        return {run_id: next(self._positions, None) for run_id in run_ids}

    async def evidences(self, collection: str, run_ids: Sequence[str]) -> Mapping[str, Evidence | Exception]:
        found = self.looks[min(self.looked, len(self.looks) - 1)]
        self.looked += 1
        return {} if found is None else dict.fromkeys(run_ids, found)

    async def position(self, collection: str, run_id: str) -> object:
        return (await self.positions(collection, [run_id])).get(run_id)

    async def evidence(self, collection: str, run_id: str) -> Evidence | None:
        found = (await self.evidences(collection, [run_id])).get(run_id)
        if isinstance(found, Exception):
            raise found
        return found

    async def artifacts(self, run_id: str) -> AsyncIterator[Mapping[str, Any]]:
        for each in self.files:
            yield each

    @property
    def rows(self) -> Rows:
        return self.stored_rows

    async def shared(self, name: str, condition: Mapping[str, Any]) -> Sequence[tuple[str, list[str]]]:
        if name == "lease.tokenHash":
            assert not condition
            return self.tokens
        assert (name, condition) == ("claimedBy", self.HELD)
        return next(self._pods, ())

    async def misnamed(self) -> AsyncIterator[tuple[str, str]]:
        for each in self.names:
            yield each

    async def runs_without_spec(self) -> AsyncIterator[str]:
        for each in self.specless:
            yield each

    async def orphans(self) -> AsyncIterator[tuple[str, str]]:
        for each in self.ownerless:
            yield each

    async def letters_of_nobody(self) -> AsyncIterator[Mapping[str, Any]]:
        for each in self.letters:
            yield each


@dataclass
class Storage:
    """Objects by key: size and digest; some are broken for so many reads."""

    found: Mapping[str, tuple[int, str]]
    broken: dict[str, int] = field(default_factory=dict)
    is_away: bool = False

    async def digest(self, key: str, most: int) -> tuple[int, str] | None:
        assert most == 3, "an object is read as far as it was registered"
        if key == "":
            raise Rejected("bad_key", "it is empty")
        if self.broken.get(key):
            self.broken[key] -= 1
            raise Transient("storage_unreachable", "it ends too early")
        return self.found.get(key)

    async def ping(self) -> None:
        if self.is_away:
            raise Transient("storage_unreachable", "nobody answers")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "SECOND_LOOK_S", 0)
    monkeypatch.setattr(verifier, "LOOK_AGAIN_S", 0.001)


def verifier_of(reads: Reads, **fields: Any) -> Verifier:
    return Verifier(reads, **fields)  # type: ignore[arg-type]


async def audited(reads: Reads, *, only: str | None = None, rebuilds: bool = True, **fields: Any) -> Any:
    """Return invariant and run of each finding."""
    found = verifier_of(reads, **fields).audit(rebuilds=rebuilds, only=only)
    return [(each.invariant, each.run_id) async for each in found]


async def test_a_sound_store_gives_no_finding() -> None:
    assert await audited(Reads()) == []
    assert await audited(Reads(), objects=Storage({})) == []


async def test_every_walk_over_the_fleet_is_told_and_none_of_it_where_one_run_is_asked_for() -> None:
    def everything() -> Reads:
        return Reads(
            tokens=[("hash", [RUN_ID, OTHER])],
            pods=[[("pod", [RUN_ID, OTHER])]] * 2,
            names=[("stages", "5: _id is 5")],
            specless=[OTHER],
            ownerless=[("stages", OTHER)],
            letters=[LETTER, {**LETTER, "at": "never"}],
        )

    assert await audited(everything()) == [
        ("duplicate-token", RUN_ID),
        ("two-runs-one-pod", RUN_ID),
        ("unreadable", "-"),
        ("spec-missing", OTHER),
        ("orphan-document", OTHER),
        ("unreadable", "-"),
    ]
    asked = everything()
    assert await audited(asked, only=RUN_ID) == []
    assert asked.asked == [RUN_ID]


async def test_a_line_of_nobody_that_was_refused_for_no_reason_is_told() -> None:
    letter = {**LETTER, "code": "far_ahead", "line": "{}", "runId": OTHER}
    assert await audited(Reads(letters=[letter])) == [("wrong-refusal", OTHER)]


@pytest.mark.parametrize(
    ("pods", "is_told"),
    [
        ([[("pod", ["a", "b"])], [("pod", ["a", "b"])]], True),
        ([[("pod", ["a", "b"])], [("pod", ["b", "c"])]], False),  # it has left one, and begun another
        ([[("pod", ["a", "b"])], []], False),
        ([[], [("pod", ["a", "b"])]], False),
    ],
)
async def test_a_pod_has_two_runs_at_once_only_where_a_second_look_finds_the_same(
    pods: Any, is_told: bool
) -> None:
    assert bool(await audited(Reads(pods=pods))) == is_told


def registered(place: int, key: str, **fields: Any) -> dict[str, Any]:
    return {
        "_id": f"a{place}", "runId": RUN_ID, "attempt": 1, "name": f"file {place}", "key": key, "size": 3,
        "sha256": "d", **fields,
    }  # fmt: skip


async def test_each_file_is_compared_with_its_object_and_none_is_left_out() -> None:
    sound = [registered(place, "good") for place in range(verifier.DOWNLOADS_MAX)]
    wrong = [registered(10, "gone"), registered(11, ""), registered(12, "size"), registered(13, "digest")]
    objects = Storage({"good": (3, "d"), "size": (4, "d"), "digest": (3, "e")})
    reads = Reads(files=[*sound, *wrong, registered(14, "gone")])
    told = [each async for each in verifier_of(reads, objects=objects).audit(rebuilds=False)]
    assert [each.invariant for each in told] == [
        "artifact-missing", "unreadable", "artifact-altered", "artifact-altered", "artifact-missing",
    ]  # fmt: skip
    assert "3 bytes, SHA-256 d… were registered, 4 bytes, d… are stored" in told[2].message
    assert "no object can have its key: it is empty" in told[1].message


async def test_an_object_that_cannot_be_read_ends_no_audit_and_a_storage_that_is_away_does() -> None:
    files = [registered(1, "once"), registered(2, "always"), registered(3, "gone")]
    objects = Storage({"once": (3, "d"), "always": (3, "d")}, broken={"once": 1, "always": 2})
    told = [each async for each in verifier_of(Reads(files=files), objects=objects).audit(rebuilds=False)]
    assert [each.invariant for each in told] == ["artifact-unread", "artifact-missing"]
    assert told[0].message == "file 2 of attempt 1 at always cannot be read: it ends too early"
    objects = Storage({}, broken={"once": 1}, is_away=True)
    with pytest.raises(Transient, match="nobody answers"):
        await audited(Reads(files=files), objects=objects)


async def test_a_replay_is_compared_only_where_that_is_asked_for() -> None:
    for rebuilds, expected in ((True, [("rebuild", RUN_ID)]), (False, [])):
        assert await audited(Reads([ALTERED]), rebuilds=rebuilds) == expected
    told = [each async for each in verifier_of(Reads([ALTERED])).rebuild()]
    assert [each.invariant for each in told] == ["rebuild"]


async def test_a_run_that_is_gone_is_none_and_one_whose_id_is_no_text_is_told() -> None:
    assert await verifier_of(Reads([None])).examine("runs", RUN_ID) == []
    (told,) = await verifier_of(Reads([None])).examine("runs", "r\ufffd")
    assert (told.invariant, told.message) == ("unreadable", "runs: its id is no text")


@pytest.mark.parametrize(
    ("error", "invariant"),
    [(Unjudged("too-large", "it has more"), "too-large"), (KeyError("status"), "unreadable")],
)
async def test_a_run_that_cannot_be_read_is_told(error: Exception, invariant: str) -> None:
    (told,) = await verifier_of(Reads([error])).examine("runs", RUN_ID)
    assert (told.run_id, told.invariant) == (RUN_ID, invariant)


async def test_what_was_read_while_the_run_moved_is_read_again() -> None:
    reads = Reads([ALTERED, ALTERED, SOUND], moves=[1, 2, 2, 3])
    assert await verifier_of(reads).examine("runs", RUN_ID) == []
    assert reads.looked == 3


async def test_a_wrong_that_stands_still_is_told_at_once_and_one_that_always_moves_in_the_end() -> None:
    still, moving = Reads([ALTERED]), Reads([ALTERED], moves=iter(range(1000)))
    for reads, looks in ((still, 1), (moving, TRIES_MAX)):
        (told,) = await verifier_of(reads).examine("runs", RUN_ID)
        assert (told.invariant, reads.looked) == ("rebuild", looks)


async def test_a_young_run_is_given_time_and_then_told() -> None:
    reads = Reads([YOUNG, YOUNG, replace(SOUND, now=EPOCH)])
    assert await verifier_of(reads, patience_s=10.0).examine("runs", RUN_ID) == []
    assert reads.looked == 3
    patient = Reads([YOUNG])
    (told,) = await verifier_of(patient, patience_s=0.005).examine("runs", RUN_ID)
    assert (told.invariant, 1 < patient.looked < TRIES_MAX) == ("rebuild", True)


async def test_a_note_is_told_at_once_and_beside_a_wrong_both_are() -> None:
    reads = Reads([NOTED], moves=iter(range(1000)))
    told = await verifier_of(reads).examine("runs", RUN_ID, rebuilds=False)
    assert ([each.is_note for each in told], reads.looked) == ([True], 1)
    both = Reads([replace(NOTED, broken=BROKEN.broken)], moves=iter(range(1000)))
    told = await verifier_of(both).examine("runs", RUN_ID, rebuilds=False)
    assert (sorted(each.is_note for each in told), both.looked) == ([False, True], TRIES_MAX)


def test_what_could_not_be_read_is_told_beside_what_is_wrong() -> None:
    assert [each.message for each in judge(BROKEN, rebuilds=True)] == [*BROKEN.broken]
    spoiled = replace(BROKEN, run={name: value for name, value in RUN.items() if name != "journal"})
    told = judge(spoiled, rebuilds=True)
    assert [each.invariant for each in told] == ["unreadable", "unreadable"]
    assert "a stored field is missing or of another type" in told[1].message


def test_a_message_may_quote_anything_and_is_cut() -> None:
    (told,) = judge(replace(SOUND, broken=("x" * 10_000,)), rebuilds=True)
    assert len(told.message) == MESSAGE_CHARS_MAX + 1
    assert Finding("r", "x" * MESSAGE_CHARS_MAX).clipped().message == "x" * MESSAGE_CHARS_MAX


LONG_AGO: Final = EPOCH - timedelta(days=1)


@pytest.mark.parametrize("what", ["event", "decision on its way", "stretch", "nothing"])
def test_a_run_is_young_by_whatever_came_last(what: str) -> None:
    old = [{**each, "receivedAt": LONG_AGO} for each in SOUND.log]
    changes: dict[str, Any] = {
        "event": {"log": [*old[:-1], {**old[-1], "receivedAt": EPOCH}]},
        "decision on its way": {"log": old[1:], "run": {**RUN, "journal": [journaled(DECISIONS[0])]}},
        "stretch": {"log": old, "quiet": [Quiet(1, 3, 9, LONG_AGO, EPOCH)]},
        "nothing": {"log": old},
    }[what]
    assert is_young(replace(SOUND, now=EPOCH, **changes)) == (what != "nothing")
    assert not is_young(replace(SOUND, now=EPOCH + verifier.YOUNG, **changes))
