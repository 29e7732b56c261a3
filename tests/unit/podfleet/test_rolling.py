"""The steps of a rolling update, and how it goes on, ends and is undone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from msgspec import structs

from control_plane.model.views.document_mapping import from_document
from events.answers.pods import Cordon as Cordoned
from events.answers.pods import Pod, PodOrders, PodStanding
from events.testing import ManualClock
from podfleet.commands.pods.roll import Roller, Stopped
from podfleet.commands.pods.rolling import (
    REASON,
    Chosen,
    Cordon,
    Finish,
    Restart,
    Step,
    Unchanged,
    Wait,
    steps,
)

OLD, NEW = "0.1.0", "0.2.0"
CHOSEN = Chosen(NEW)
OURS = Cordoned(reason=f"{REASON} to {NEW}", by="me", since="2026-01-01T00:00:00Z", until=None)
THEIRS = structs.replace(OURS, reason="a new disk")
WAITS: Final = "waits for its run"
AWAY: Final = "restarts"
BACK: Final = "is back"
HAS_OLD = f"has {OLD} still, and is ordered to restart"


def pod(identity: str, version: str = OLD, state: str = "idle", **more: Any) -> Pod:
    orders = PodOrders(drain=more.pop("drain", False), restart=more.pop("restart", False))
    orders = structs.replace(orders, cordon=more.pop("cordon", None))
    name = identity.partition("/")[0]
    found = from_document(Pod, {"_id": identity, "pod": name, "state": state, "version": version})
    return structs.replace(found, orders=orders, **more)


def check(kinds: list[str] | None) -> Any:
    return structs.replace(
        from_document(Pod, {"_id": "x", "checks": [{"name": "disk", "ok": False}]}).checks[0], kinds=kinds
    )


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], []),
        ([pod("a/1", NEW)], []),
        ([pod("b/1"), pod("a/1"), pod("c/1", NEW)], [Cordon("a")]),
        ([pod("a/1", state="gone"), pod("b/1", state="stopped")], []),
        ([pod("a/1", drain=True)], []),
        ([pod("a/1", cordon=OURS, run_id="r"), pod("b/1")], [Wait("a", WAITS, "finishes r")]),
        ([pod("a/1/1", cordon=OURS), pod("a/1/2", cordon=OURS)], [Restart("a", ("a/1/1", "a/1/2"))]),
        (
            [pod("a/1/1", cordon=OURS), pod("a/1/2", cordon=OURS, run_id="r")],
            [Wait("a", WAITS, "finishes r")],
        ),
        (
            [pod("a/1", cordon=OURS, restart=True)],
            [Wait("a", AWAY, HAS_OLD)],
        ),
        ([pod("a/1", restart=True), pod("b/1")], [Wait("a", AWAY, HAS_OLD)]),
        (
            [pod("a/1", state="stopped", cordon=OURS), pod("b/1")],
            [Wait("a", AWAY, "has not reported since it left")],
        ),
        (
            [pod("a/2", NEW, "starting", cordon=OURS), pod("a/1", state="stopped", cordon=OURS), pod("b/1")],
            [Wait("a", BACK, "is starting")],
        ),
        (
            [pod("a/2", NEW, cordon=OURS, checks=[check(None)])],
            [Wait("a", BACK, "claims nothing (disk fails)")],
        ),
        ([pod("a/2", NEW, cordon=OURS, checks=[check(["job"])]), pod("b/1")], [Finish("a", True)]),
        ([pod("a/2", NEW, cordon=OURS), pod("b/1"), pod("a/1", state="gone")], [Finish("a", True)]),
        ([pod("a/1", cordon=THEIRS)], [Cordon("a")]),
        ([pod("a/2", NEW, cordon=THEIRS), pod("b/1")], [Cordon("b")]),
    ],
)  # fmt: skip
def test_the_store_says_what_each_pod_needs_next(pods: list[Pod], expected: list[Step]) -> None:
    assert steps(pods, CHOSEN, {}) == expected


def test_a_pod_that_came_back_as_it_was_ends_the_update_and_a_first_look_does_not() -> None:
    again = [pod("a/2", cordon=OURS), pod("a/1", state="stopped", restart=True, cordon=OURS)]
    assert steps(again, CHOSEN, {"a": {"a/1"}}) == [Unchanged("a", OLD)]
    assert steps(again, CHOSEN, {}) == [Restart("a", ("a/2",))]


def test_only_chosen_pods_are_begun_and_so_many_at_once() -> None:
    fleet = [pod(f"{name}/1", labels={"rack": rack}) for name, rack in (("a", "x"), ("b", "y"), ("c", "y"))]
    assert steps(fleet, Chosen(NEW, labels={"rack": "y"}, at_once=5), {}) == [Cordon("b"), Cordon("c")]
    assert steps(fleet, Chosen(NEW, names={"c", "a"}, at_once=1), {}) == [Cordon("a")]
    assert steps(fleet, Chosen(NEW, names={"a"}, labels={"rack": "y"}), {}) == []
    going = [pod("z/1", cordon=OURS, run_id="r"), *fleet]
    assert steps(going, Chosen(NEW, at_once=2), {})[1:] == [Cordon("a")], "what is under way counts"


@dataclass
class Fleet:
    """A fleet whose pods have one worker, start again as the test says, and know nothing of time."""

    workers: dict[str, Pod]
    comes_back: str | None = NEW
    restarts: list[str] = field(default_factory=list)
    cordoned: set[str] = field(default_factory=set)
    most: int = 0

    def pods(self) -> Iterator[Pod]:
        self.most = max(self.most, sum(each.orders.cordon is not None for each in self.workers.values()))
        yield from list(self.workers.values())

    def cordon(self, name: str, reason: str, *, for_s: float | None = None) -> PodStanding:
        self.cordoned.add(name)
        return self._set(name, structs.replace(OURS, reason=reason))

    def uncordon(self, name: str) -> PodStanding:
        return self._set(name, None)

    def _set(self, name: str, cordon: Cordoned | None) -> PodStanding:
        worker = self.workers[name]
        self.workers[name] = structs.replace(worker, orders=structs.replace(worker.orders, cordon=cordon))
        return PodStanding(pod=name, cordon=cordon, quarantine=None)

    def restart(self, pod_id: str) -> Pod:
        name = pod_id.partition("/")[0]
        self.restarts.append(name)
        cordon = self.workers[name].orders.cordon
        if self.comes_back is None:
            self.workers[name] = pod(pod_id, cordon=cordon, restart=True)
        else:
            self.workers[name] = pod(f"{name}/{len(self.restarts)}new", self.comes_back, cordon=cordon)
        return self.workers[name]

    def undrain(self, pod_id: str) -> Pod:
        name = pod_id.partition("/")[0]
        orders = structs.replace(self.workers[name].orders, restart=False)
        self.workers[name] = structs.replace(self.workers[name], orders=orders)
        return self.workers[name]


def rolled(fleet: Fleet, chosen: Chosen = CHOSEN, rounds: int = 100) -> Roller:
    """Go on until nothing is left, or so many rounds of a second."""
    roller = Roller(fleet, chosen, ManualClock(), limit_s=5, back_s=5)
    run(roller, rounds)
    return roller


def run(roller: Roller, rounds: int) -> None:
    for _ in range(rounds):
        if not roller.run_once():
            return
        roller.clock.wait(threading.Event(), 1)


def three() -> Fleet:
    return Fleet({name: pod(f"{name}/1") for name in "abc"})


@pytest.mark.parametrize("at_once", [1, 2])
def test_all_pods_have_the_version_in_the_end_and_never_more_than_allowed_are_away(at_once: int) -> None:
    fleet = three()
    assert rolled(fleet, Chosen(NEW, at_once=at_once)).done == ["a", "b", "c"]
    assert {each.version for each in fleet.workers.values()} == {NEW}
    assert not any(each.orders.cordon for each in fleet.workers.values())
    assert fleet.most == at_once


@pytest.mark.parametrize("rounds", range(1, 10))
def test_an_update_that_was_killed_anywhere_goes_on_and_restarts_no_pod_twice(rounds: int) -> None:
    fleet = three()
    rolled(fleet, rounds=rounds)
    rolled(fleet)
    assert sorted(fleet.restarts) == ["a", "b", "c"]
    assert {each.version for each in fleet.workers.values()} == {NEW}
    assert not any(each.orders.cordon for each in fleet.workers.values())
    assert fleet.most == 1


def test_a_cordon_of_somebody_else_stays_as_it_is() -> None:
    fleet = Fleet({"a": pod("a/1", cordon=THEIRS)})
    assert rolled(fleet).done == ["a"]
    assert fleet.workers["a"].orders.cordon == THEIRS
    assert fleet.cordoned == set()


@pytest.mark.parametrize(
    ("comes_back", "first", "why"),
    [
        ("0.1.1", pod("a/1"), "a came back with 0.1.1, not 0.2.0"),
        (None, pod("a/1"), "a: after 5 s it has 0.1.0 still, and is ordered to restart"),
        (NEW, pod("a/1", run_id="long"), "a: after 5 s it finishes long"),
    ],
)
def test_the_first_pod_that_does_not_come_back_ends_it_and_is_left_as_it_was(
    comes_back: str | None, first: Pod, why: str
) -> None:
    fleet = Fleet({"a": first, "b": pod("b/1")}, comes_back)
    roller = Roller(fleet, CHOSEN, ManualClock(), limit_s=5, back_s=5)
    with pytest.raises(Stopped, match=why):
        run(roller, 20)
    roller.give_up()
    assert fleet.cordoned == {"a"}, "the others are left alone"
    assert not any(each.orders.cordon or each.orders.restart for each in fleet.workers.values())
