"""The looks that find the classes that wait: what they ask, and what is remembered of them."""

from __future__ import annotations

from typing import Any

import pytest

from events.queue import looks
from events.queue.abilities import Abilities
from events.queue.looks import (
    BELIEVED_S,
    FEW,
    LOOKED_MAX,
    Looks,
    classes_of,
    heads,
    heads_of,
    heads_pinned_to,
)
from events.queue.matching import Seeker, WaitingClass
from events.testing import EPOCH
from testing.simulation.store.driver import sync_database
from testing.simulation.store.replica_set import ReplicaSet
from tests.unit.events.test_claims import CLASS, submit, take

LABELS = {"gpu": "h100"}
SEEKER = Seeker("pod-1/a", "experiment", Abilities(frozenset({"probe"}), 80.0, None, LABELS, "pod-1"))
MANY = [WaitingClass("runs", f"probe/cpu/any/rack=r{number}", 0) for number in range(FEW)]
OURS = WaitingClass("runs", "probe/cpu/any/gpu=h100", 3)


@pytest.fixture
def runs() -> Any:
    """An empty queue."""
    return sync_database(ReplicaSet(lambda: EPOCH), "test").runs


def found(runs: Any, pipeline: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each.class_key, each.priority) for each in classes_of("runs", runs.aggregate(pipeline))]


def test_the_heads_are_read_along_the_claim_index_and_the_pins_beside_them() -> None:
    def along(wanted: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"$match": {"status": "QUEUED", "classKey": wanted}},
            {"$sort": {"status": 1, "classKey": 1, "priority": -1, "queuedAt": 1, "_id": 1}},
            {"$group": {"_id": "$classKey", "priority": {"$first": "$priority"}}},
            {"$limit": LOOKED_MAX},
        ]

    plain, union = heads("runs", "pod-1", after="k")[:-1], heads("runs", "pod-1")[-1]
    assert plain == along({"$gt": "k", "$lt": "~"})
    assert list(plain[1]["$sort"]) == ["status", "classKey", "priority", "queuedAt", "_id"]
    pins = along({"$gte": "~pod-1/", "$lt": "~pod-10"})
    assert union == {"$unionWith": {"coll": "runs", "pipeline": pins}}
    assert heads("runs") == along({"$gt": "", "$lt": "~"})
    assert heads_of(("a", "b")) == along({"$in": ["a", "b"]})


def test_heads_tell_of_each_class_once_with_its_highest_priority(runs: Any) -> None:
    submit(runs, "low", priority=-3)
    submit(runs, "high", priority=4)
    submit(runs, "other", priority=1, class_key="probe/80/any")
    submit(runs, "taken", priority=9, class_key="probe/24/any")
    take(runs, "probe/24/any")
    assert found(runs, heads("runs")) == [("probe/80/any", 1), (CLASS, 4)]
    assert found(runs, heads_of([CLASS, "probe/8/any"])) == [(CLASS, 4)]


def test_a_pod_sees_its_own_pins_and_nobody_elses(runs: Any) -> None:
    for name in ("pod-1", "pod-10", "pod-2", "pod", "pod-1~"):
        submit(runs, name, class_key=f"~{name}/probe/cpu/any")
    submit(runs, "plain")
    assert found(runs, heads("runs", "pod-1")) == [(CLASS, 0), ("~pod-1/probe/cpu/any", 0)]
    assert found(runs, heads("runs")) == [(CLASS, 0)]
    assert found(runs, heads_pinned_to("pod-1")) == [("~pod-1/probe/cpu/any", 0)]


def test_a_look_that_was_cut_goes_on_behind_it_and_then_from_the_beginning(
    monkeypatch: pytest.MonkeyPatch, runs: Any
) -> None:
    monkeypatch.setattr(looks, "LOOKED_MAX", 2)
    for number in range(5):
        submit(runs, f"r{number}", class_key=f"probe/cpu/any/rack=r{number}")
    submit(runs, "pinned", class_key="~pod-1/probe/cpu/any")
    kept, seen = Looks(), list[list[str]]()
    for _ in range(4):
        classes = classes_of("runs", runs.aggregate(kept.whole("runs", "pod-1")))
        kept.note("runs", classes)
        seen.append([each.class_key[-2:] for each in classes])
    assert seen == [["r0", "r1", "ny"], ["r2", "r3", "ny"], ["r4", "ny"], ["r0", "r1", "ny"]]


def test_what_a_pod_served_is_looked_at_alone_for_a_moment() -> None:
    kept = Looks()
    assert kept.narrow(SEEKER, 0.0) == []
    kept.remember(SEEKER, [*MANY, OURS], 10.0)
    narrow = [("runs", heads_of([OURS.class_key]))]
    assert kept.narrow(SEEKER, 10.0 + BELIEVED_S) == narrow
    assert kept.narrow(SEEKER, 10.1 + BELIEVED_S) == []
    other = Seeker("pod-2/a", "experiment", SEEKER.abilities)
    assert kept.narrow(other, 10.0) == []


def test_few_classes_are_looked_at_whenever_a_pod_claims() -> None:
    kept = Looks()
    kept.remember(SEEKER, [*MANY, OURS], 10.0)
    kept.remember(SEEKER, [*MANY[1:], OURS], 10.0)
    assert kept.narrow(SEEKER, 10.0) == []


def test_of_many_pods_the_last_ones_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "PODS_MAX", 2)
    kept = Looks()
    pods = [Seeker(f"pod-{number}/a", "experiment", SEEKER.abilities) for number in range(3)]
    for each in pods:
        kept.remember(each, [*MANY, OURS], 10.0)
    assert [bool(kept.narrow(each, 10.0)) for each in pods] == [False, True, True]
