"""What the time of pods was spent on: the classes sum to it, whatever attempts and documents say."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from control_plane.model.run import Entry
from control_plane.reads.ledger.documents import cost_before, milliseconds
from control_plane.reads.ledger.export import in_csv, in_ndjson
from control_plane.reads.ledger.reader import By, Ledgers
from control_plane.reads.ledger.segments import CLASSES, LOST, Held, Life, cuts, lived, segments
from events.answers.fleet import Ledger, LedgerRow
from events.queue.requirements import Requirements, class_key
from events.runtime.errors import Rejected
from events.testing import ManualClock

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
BEGUN = NOW - timedelta(days=3)
OUTCOMES = (None, "completed", "failed", "preempted", "canceled", "lost", "no such end")
FAULTS = (None, "run", "pod", "outside", "nobody")

Document = Mapping[str, Any]


def at(seconds: float) -> datetime:
    """Return a moment so long after the beginning, as the store keeps it."""
    found = BEGUN + timedelta(seconds=seconds)
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


@dataclass
class Stored:
    """The documents of a fleet."""

    pods: list[Document] = field(default_factory=list)
    attempts: list[Document] = field(default_factory=list)
    runs: dict[str, Document] = field(default_factory=dict)

    async def workers(self, since: datetime, until: datetime) -> Sequence[Document]:
        return self.pods

    async def held(self, since: datetime, until: datetime) -> Sequence[Document]:
        return self.attempts

    async def later(self, runs: Collection[str]) -> Sequence[Document]:
        return [each for each in self.attempts if each["runId"] in runs]

    async def fields(self, runs: Collection[str], *names: str) -> Mapping[str, Document]:
        return {name: each for name, each in self.runs.items() if name in runs}

    async def attempts_of(self, run_id: str) -> tuple[dict[int, dict[str, Any]], Sequence[Entry]]:
        return {each["attempt"]: dict(each) for each in self.attempts if each["runId"] == run_id}, ()

    async def prices(self, workers: Collection[str]) -> Mapping[str, object]:
        return {each["_id"]: each["usdPerHour"] for each in self.pods if each["_id"] in workers}

    def pod(self, name: str, since_s: float, until_s: float, *, gpus: int = 1, usd: object = 3.6) -> None:
        self.pods.append(
            {
                "_id": name,
                "startedAt": at(since_s),
                "reportedAt": at(until_s),
                "usdPerHour": usd,
                "capabilities": {"gpus": [{"name": "a"}] * gpus},
            }
        )

    def attempt(
        self, run: str, number: int, pod: str, since_s: float, until_s: float | None, outcome: str | None,
        fault: str | None = None, **marks: float,
    ) -> None:  # fmt: skip
        self.attempts.append(
            {
                "runId": run, "attempt": number, "pod": pod, "claimedAt": at(since_s),
                "endedAt": None if until_s is None else at(until_s), "outcome": outcome, "fault": fault,
                "marks": {name: at(mark) for name, mark in marks.items()} or None,
            }
        )  # fmt: skip

    def read(self, by: By = "day", **window: Any) -> Ledger:
        return asyncio.run(Ledgers(self, ManualClock(NOW)).read(by, **window))


def seconds(row: LedgerRow) -> dict[str, float]:
    """Return the classes of a row that have any time."""
    return {name: spent.seconds for name, spent in row.classes.items() if spent.seconds}


def random_fleet(chance: Random) -> Stored:
    """Return pods with slots, and attempts whose ends and marks may lie about anything."""
    stored = Stored()
    for number in range(chance.randint(1, 4)):
        begun, gpus = chance.uniform(-1e5, 2e5), chance.choice((0, 1, 8))
        usd = chance.choice((None, 0.0, 3.6, float("nan"), "much"))
        for slot in range(chance.choice((1, 1, 3))):
            worker = f"pod-{number}/boot/{slot}"
            if chance.random() < 0.9:  # the others are not in the roster
                last = begun + chance.choice((0.0, chance.uniform(0, 3e5)))
                stored.pod(worker, begun, last, gpus=gpus, usd=usd)
            for _ in range(chance.randint(0, 6)):
                since = chance.uniform(-1e5, 3e5)
                until = chance.choice((None, since + chance.uniform(-1e3, 1e5)))
                names = ("workedFrom", "workedUntil", "savedUntil", "setAsideAt")
                marks = {name: chance.uniform(-2e5, 4e5) for name in names if chance.random() < 0.5}
                stored.attempt(
                    f"run-{chance.randint(1, 5)}", chance.randint(1, 4), worker, since, until,
                    chance.choice(OUTCOMES), chance.choice(FAULTS), **marks,
                )  # fmt: skip
    stored.runs = {"run-1": {"classKey": "probe/cpu/any", "title": "one"}, "run-2": {"classKey": "?"}}
    return stored


@pytest.mark.parametrize("seed", range(60))
def test_the_classes_sum_to_the_time_of_the_pods(seed: int) -> None:
    stored = random_fleet(Random(seed))
    everything: Mapping[str, Any] = {"since": BEGUN - timedelta(days=30), "until": NOW}
    tables = {by: stored.read(by, limit=1_000, **everything) for by in ("day", "pod", "run", "project")}
    totals = [table.total.all.seconds for table in tables.values()]
    assert len(set(totals)) == 1, "each table has the whole time"
    for table in tables.values():
        for row in (*table.items, table.total):
            assert set(row.classes) == set(CLASSES)
            for unit in ("seconds", "gpu_seconds"):
                parts = [round(getattr(each, unit) * 1000) for each in row.classes.values()]
                assert sum(parts) == round(getattr(row.all, unit) * 1000)
                assert sum(round(getattr(row.classes[of], unit) * 1000) for of in LOST) == round(
                    getattr(row.lost, unit) * 1000
                )
            assert sum(each.cost_usd or 0 for each in row.classes.values()) == pytest.approx(
                row.all.cost_usd or 0
            )
        for unit in ("seconds", "gpu_seconds"):
            assert sum(round(getattr(row.all, unit) * 1000) for row in table.items) == round(
                getattr(table.total.all, unit) * 1000
            )
    # and two halves of the time are the whole
    middle = BEGUN + timedelta(seconds=50_000, milliseconds=1)
    halves = [stored.read(since=everything["since"], until=middle), stored.read(since=middle, until=NOW)]
    assert round(sum(each.total.all.seconds for each in halves) * 1000) == round(totals[0] * 1000)


@pytest.mark.parametrize("seed", range(20))
def test_the_segments_of_a_life_lie_end_to_end(seed: int) -> None:
    chance = Random(seed)
    held = [
        Held(
            f"r{number}", 1, "p", since := chance.randint(-500, 1500),
            chance.choice((None, since + chance.randint(-100, 900))), chance.choice(OUTCOMES),
            chance.choice(FAULTS), *(chance.choice((None, chance.randint(-500, 2500))) for _ in range(3)),
        )
        for number in range(8)
    ]  # fmt: skip
    life = lived(Life("p", 0, 1000), held)
    found = list(segments(life, held))
    assert (found[0].since, found[-1].until) == (life.since, life.until)
    assert all(before.until == after.since for before, after in pairwise(found))
    assert all(each.until > each.since for each in found)
    assert all((each.of == "idle") == (each.held is None) for each in found)


def test_each_second_has_the_class_that_its_attempt_gives_it() -> None:
    stored = Stored()
    stored.pod("a/1", 0, 1_000)
    stored.attempt("done", 1, "a/1", 10, 60, "completed", workedFrom=20, workedUntil=50)
    stored.attempt("bad", 1, "a/1", 60, 100, "failed", "run", workedFrom=70)
    stored.attempt("sick", 1, "a/1", 100, 130, "failed", "pod")
    stored.attempt("away", 1, "a/1", 130, 150, "failed", "outside")
    stored.attempt("moved", 1, "a/1", 150, 250, "preempted", workedFrom=160, savedUntil=220)
    stored.attempt("moved", 2, "a/1", 250, 300, "completed", workedFrom=255, workedUntil=300)
    stored.attempt("stopped", 1, "a/1", 300, 350, "canceled", workedFrom=310, savedUntil=340)
    stored.attempt("now", 1, "a/1", 900, None, None, workedFrom=910)
    found = stored.read(by="pod")
    assert [row.key for row in found.items] == ["a"]
    assert seconds(found.total) == {
        "useful": 30 + 60 + 45, "overhead": 10 + 10 + 10 + 5, "lost_run": 40, "lost_pod": 30,
        "lost_outside": 20, "preempted": 30, "canceled": 50, "running": 100, "idle": 10 + 550,
    }  # fmt: skip
    assert found.total.all.cost_usd == pytest.approx(1.0)
    assert found.total.lost.cost_usd == pytest.approx(0.17)
    runs = {row.key: row for row in stored.read(by="run").items}
    assert seconds(runs["moved"]) == {"useful": 105, "overhead": 15, "preempted": 30}
    assert seconds(runs[""]) == {"idle": 560}


def test_a_silent_pod_counts_until_its_last_word_and_what_it_held_was_lost_by_it() -> None:
    stored = Stored()
    stored.pod("a/1", 0, 100)
    stored.attempt("r", 1, "a/1", 40, 400, "lost", "pod", workedFrom=50, savedUntil=70)
    stored.pod("b/1", 0, 500)
    assert seconds(stored.read(by="pod").total) == {"idle": 540, "lost_pod": 60}, "nobody went on"
    stored.attempt("r", 2, "b/1", 450, 510, "completed", workedFrom=460)
    found = {row.key: seconds(row) for row in stored.read(by="pod").items}
    assert found["a"] == {"idle": 40, "overhead": 10, "useful": 20, "lost_pod": 30}
    assert found["b"] == {"idle": 450, "overhead": 10, "useful": 50}, "it told the end after its last report"
    stored.attempt("r", 3, "b/1", 499, 499, "failed", "run", setAsideAt=499)
    assert seconds(stored.read(by="pod").items[1])["useful"] == 20


def test_what_a_pod_said_after_its_last_report_was_in_its_life() -> None:
    stored = Stored()
    stored.pod("a/1", 0, 5)
    stored.attempt("r", 1, "a/1", 6, 400, "lost", "pod", workedFrom=8)
    stored.attempt("s", 1, "a/1", 400, 500, "lost", "pod", workedFrom=900)
    rows = {row.key: seconds(row) for row in stored.read(by="run").items}
    assert rows["s"] == {"lost_pod": 100}, "not beyond its end"
    del stored.attempts[1]
    assert seconds(stored.read(by="pod").total) == {"idle": 6, "lost_pod": 2}


def test_what_a_later_attempt_set_aside_was_not_saved() -> None:
    stored = Stored()
    stored.pod("a/1", 0, 100)
    stored.attempt("r", 1, "a/1", 0, 40, "preempted", workedFrom=0, savedUntil=30)
    stored.attempt("r", 2, "a/1", 40, 60, "failed", "run", workedFrom=45, setAsideAt=41)
    stored.attempt("r", 3, "a/1", 60, 100, "completed", workedFrom=60, workedUntil=100)
    assert seconds(stored.read(by="run").total) == {"preempted": 40, "lost_run": 20, "useful": 40}


def test_days_are_cut_at_midnight_and_a_window_is_bounded() -> None:
    stored = Stored()
    stored.pod("a/1", 0, 86_400)  # from noon to noon
    days = stored.read(since=BEGUN, until=NOW)
    assert [(row.key, seconds(row)["idle"]) for row in days.items] == [
        ("2026-03-08", 43_200), ("2026-03-07", 43_200),
    ]  # fmt: skip
    assert stored.read().since == "2026-03-04T00:00:00.000Z"
    windows: tuple[dict[str, Any], ...] = (
        {"since": NOW},
        {"since": NOW, "until": BEGUN},
        {"since": NOW - timedelta(days=93)},
    )
    for wrong in windows:
        with pytest.raises(Rejected):
            stored.read("day", **wrong)


def test_rows_beyond_the_limit_are_in_the_total_and_a_file_has_no_formula() -> None:
    stored = Stored()
    for number in range(5):
        stored.pod(f"=pod-{number}/1", 0, 10 + number, gpus=0, usd=None)
    found = stored.read(by="pod", limit=2)
    assert [row.key for row in found.items] == ["=pod-4", "=pod-3"]
    assert (found.left_out, found.total.all.seconds) == (3, 60)
    assert found.total.all.cost_usd is None, "nobody knows the price"
    names, first, _ = in_csv(found.items).decode().splitlines()
    assert names.startswith("key,title,all_seconds,all_gpu_seconds,all_cost_usd,lost_seconds")
    assert first.startswith("'=pod-4,,14.0,0.0,,0.0,")
    assert in_ndjson(found.items).startswith(b'{"key":"=pod-4","title":null,"all_seconds":14.0')
    assert in_csv([]) == in_ndjson([]) == b""


def test_the_project_of_a_run_stands_in_its_class() -> None:
    stored = Stored()
    stored.pod("a/1", 0, 100)
    keys = {"r": class_key("probe", Requirements(), "vision"), "s": "probe/cpu/any", "t": "?", "u": None}
    for number, (run, key) in enumerate(keys.items()):
        stored.attempt(run, 1, "a/1", 10 * number, 10 * number + 10, "completed")
        stored.runs[run] = {"classKey": key}
    found = stored.read(by="project")
    assert {row.key: row.all.seconds for row in found.items} == {"vision": 10, "default": 10, "": 80}


def test_what_was_spent_is_known_only_once_every_attempt_has_ended() -> None:
    hour: dict[str, Any] = {"claimedAt": at(0), "endedAt": at(3600), "pod": "a/1"}
    priced: dict[str, object] = {"a/1": 2.5, "b/1": "much"}
    attempts = {1: hour, 2: {**hour, "pod": "b/1"}, 3: {**hour, "endedAt": None}}
    assert cost_before(1, attempts, priced) == 0.0
    stored = Stored()
    stored.pod("a/1", 0, 9_000, usd=2.5)
    stored.attempt("r", 1, "a/1", 0, 3_600, "failed", "run")
    assert asyncio.run(Ledgers(stored, ManualClock(NOW)).spent("r", 2)) == pytest.approx(2.5)
    assert cost_before(3, attempts, priced) == pytest.approx(2.5)
    assert cost_before(4, attempts, priced) is None
    assert cost_before(3, {1: hour}, priced) is None, "its document is not written yet"


def test_a_damaged_document_is_left_out() -> None:
    stored = Stored()
    stored.pod("a/1", 0, 10)
    stored.pods += [{"_id": 7}, {"_id": "b/1", "startedAt": "x", "reportedAt": at(1)}]
    stored.attempts += [
        {"runId": "r", "attempt": 1, "pod": 3, "claimedAt": at(1)},
        {"runId": 5, "attempt": 1, "pod": "a/1", "claimedAt": at(1), "outcome": "failed", "marks": 3},
        {"runId": "r", "attempt": 1, "pod": "a/1", "claimedAt": at(4), "endedAt": at(6), "outcome": 5,
         "fault": [], "marks": {"workedFrom": "then"}},
    ]  # fmt: skip
    assert seconds(stored.read(by="run").total) == {"idle": 8, "running": 2}


def test_the_cuts_of_an_attempt_never_go_back_in_a_life() -> None:
    held = Held("r", 1, "p", 100, 50, "completed", None, 300, 20, None)
    assert [each.of for each in segments(Life("p", 0, 200), [held])] == ["idle", "idle"]
    assert [of for of, _ in cuts(held, 200)] == ["overhead", "useful", "overhead"]
    assert milliseconds(at(0.001)) - milliseconds(at(0)) == 1
