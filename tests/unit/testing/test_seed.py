"""A plan is the same whoever asks, and the short way of a pipeline ends where the long one does."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from ulid import ULID

from control_plane.runs.submission import Submission, read, run_fields
from events.queue.claims import claim_decision
from events.queue.journal import creation, update
from testing.seed.life import Life, changed
from testing.seed.plan import CHUNK, Plan
from testing.seed.run_histories import Story
from testing.simulation.store.updates import Moment, updated

UNTIL = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAN = Plan(7, 5_000, 60_000, UNTIL, 100)


def test_a_decision_sets_what_the_store_would_set() -> None:
    wanted = Submission(kind="probe", spec={}, by="dana", labels={"a.b": "$x"}, not_before=UNTIL)
    life = Life("r", "runs", UNTIL, PLAN.rng("any"))
    life.submit(wanted)
    claim = claim_decision("token", "pod/1", 60.0)
    pipelines = [creation(run_fields(read(wanted)), by="dana"), update(claim)]
    mine, double = {"_id": "r"}, {"_id": "r"}
    for pipeline in pipelines:
        mine = changed(mine, pipeline, UNTIL)
        double = updated(double, pipeline, Moment(UNTIL))
        assert mine == double
    assert mine["lease"]["until"] > UNTIL


def test_every_story_ends_as_the_store_would_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(
        document: dict[str, object], pipeline: list[dict[str, object]], at: datetime
    ) -> dict[str, object]:
        result = changed(document, pipeline, at)
        assert result == updated(dict(document), pipeline, Moment(at))
        return result

    monkeypatch.setattr("testing.seed.life.changed", both)
    statuses = {Story(PLAN, number, 3).tell().run["status"] for number in range(0, PLAN.runs, 23)}
    assert len(statuses) > 6


def test_runs_are_submitted_in_the_order_of_their_numbers_and_densely_at_the_end() -> None:
    moments = [PLAN.created_at(number) for number in range(PLAN.runs)]
    assert all(one < other for one, other in pairwise(moments))
    assert moments[-1] < UNTIL
    newest = sum((UNTIL - moment).days < 7 for moment in moments)
    assert newest > 2 * PLAN.runs * 7 / 180
    ids = [PLAN.run(number) for number in range(0, PLAN.runs, 50)]
    assert ids == sorted(ids)
    assert all(str(ULID.from_str(each)) == each for each in ids)


def test_no_pod_holds_two_runs_and_every_run_is_in_one_chunk() -> None:
    held = [number for number in range(PLAN.runs) if PLAN.fate(number) == "held"]
    assert len(held) == PLAN.busy
    lives = [Story(PLAN, number).tell() for number in held if number != PLAN.long_run]
    owners = [life.run["claimedBy"] for life in lives]
    assert len(set(owners)) == len(owners)
    numbers = [number for chunk in range(PLAN.chunks) for number in PLAN.numbers(chunk)]
    assert numbers == list(range(PLAN.runs))
    assert len(PLAN.numbers(0)) == CHUNK
