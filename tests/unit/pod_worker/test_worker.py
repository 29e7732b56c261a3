"""What a worker asks the queue for while its warm process still loads pipelines."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from events.delivery.pipe import Ready
from events.queue.abilities import Abilities
from events.queue.claims import Claim
from events.queue.matching import Named, Seeker, WaitingClass
from events.queue.settlement import LEFT_TO_OTHERS_S, End
from events.runtime.errors import Transient
from events.runtime.measured_clock import MeasuredClock
from events.testing import ManualClock, SeededIds, make_attempt, make_logs, make_outbox
from pod_worker.attempt.attempt import Ports
from pod_worker.child.exit_status import Exited, NeverStarted
from pod_worker.machine.gauges import Gauges
from pod_worker.machine.gpu import NoDriver
from pod_worker.queue.claim_intent import Intent
from pod_worker.queue.roster import PodOrders, Roster
from pod_worker.worker import CHECKED_WITHIN_S, POLL_S, VAIN_MAX, Fitness, Pauses, Pod, Untested, Worker

PROBE = Ready(["probe"], "cpu", is_loading=True)
WHOLE = Ready(["experiment", "probe"], "cpu")
NO_ORDERS = PodOrders(drain=False)
IDENTITY = {
    **dict.fromkeys(("id", "pod", "isolation", "pipeline_user", "version"), "pod"),
    "mode": "experiment", "region": None, "started_at": datetime(2026, 1, 1, tzinfo=UTC),
}  # fmt: skip
BROKEN = NeverStarted(1.0, Exited(1))

LABELS = {"gpu": "h100", "gpus": "2", "driver": "550.54", "rack": "a4"}


@dataclass
class EmptyQueue:
    """Has no run, or those in `runs`, and raises `stop` once it was asked so often."""

    stop: threading.Event
    most: int
    clock: ManualClock
    runs: list[Claim] = field(default_factory=list)
    asked: list[set[str]] = field(default_factory=list)
    able: list[Abilities] = field(default_factory=list)
    asked_at_s: list[float] = field(default_factory=list)
    recovered: int = 0
    settled: list[tuple[str, End]] = field(default_factory=list)

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        self.settled.append((claim.token, how))

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        self.recovered += 1
        return None

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        self.asked.append(set(seeker.abilities.kinds))
        self.able.append(seeker.abilities)
        self.asked_at_s.append(self.clock.monotonic_s())
        if len(self.asked) == self.most:
            self.stop.set()
        return self.runs.pop(0) if self.runs else None


@dataclass
class LoadingChild:
    """A process that says what the test tells it to, the last of it again and again."""

    says: list[Ready | NeverStarted]

    def wait_ready(self, limit_s: float) -> Ready | NeverStarted:
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]

    def __enter__(self) -> LoadingChild:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class Rests:
    """Between two questions nobody wakes the worker."""

    clock: ManualClock

    def pause(self, sought: Named, seconds: float, stop: threading.Event) -> Sequence[WaitingClass]:
        self.clock.wait(stop, seconds)
        return ()


@dataclass
class Ringing:
    """Says at once, again and again, that a run waits: one that this worker cannot have."""

    clock: ManualClock
    rings: int = 0

    def pause(self, sought: Named, seconds: float, stop: threading.Event) -> Sequence[WaitingClass]:
        self.clock.wait(stop, 0.01)
        self.rings += 1
        return [WaitingClass("runs", "probe/cpu/any", 0)]


def kinds_asked_for(folder: Path, *lives: Sequence[Ready | NeverStarted], **how: Any) -> list[set[str]]:
    return asked_by_a_worker(folder, *lives, **how).asked


def asked_by_a_worker(
    folder: Path,
    *lives: Sequence[Ready | NeverStarted],
    most: int,
    refused: int = 0,
    runs: Sequence[Claim] = (),
    idle_exit_s: float | None = None,
    clock: ManualClock | None = None,
    orders: PodOrders | None = NO_ORDERS,
    reports: Any = None,
    fitness: Fitness | None = None,
    pauses: Pauses | None = None,
) -> EmptyQueue:
    """Let a worker have one process after the other, until it has asked for a run `most` times.

    The machine has no room for the first `refused` of them.
    """  # fmt: skip
    clock, stop = clock or ManualClock(), threading.Event()
    queue = EmptyQueue(stop, most, clock, list(runs))
    children = iter([LoadingChild(list(says)) for says in lives])
    roster = Roster(
        reports,
        Gauges(NoDriver()),
        cast(Any, None),
        identity=IDENTITY,
        clock=MeasuredClock(ManualClock()),
        orders=orders,
    )
    if isinstance(clock, DrainingClock | RelentingClock):
        clock.roster = roster
    with make_outbox(folder, clock=clock) as outbox:
        ports = Ports(
            queue=cast(Any, queue),
            outbox=outbox,
            uploads=cast(Any, None),
            checkpoints=cast(Any, None),
            secrets=cast(Any, None),
            clock=clock,
            ids=SeededIds(),
            threads=cast(Any, None),
            work=folder,
            stop=stop,
        )
        pod = Pod("pod/1", "experiment", None, gpu_gib=80.0, labels=LABELS, idle_exit_s=idle_exit_s)
        intent = Intent(folder / "claim.token")
        refusals = iter(range(refused))

        def spawn() -> LoadingChild:
            if next(refusals, None) is not None:
                raise Transient("child_not_spawned", "no room for another process")
            return next(children)

        checks = fitness or Untested()
        rests = pauses or Rests(clock)
        Worker(pod, cast(Any, queue), ports, intent, roster, cast(Any, spawn), rests, checks).run()
    return queue


def test_a_kind_that_is_loaded_is_claimed_while_another_is_on_its_way(tmp_path: Path) -> None:
    asked = kinds_asked_for(tmp_path, [PROBE, PROBE, WHOLE], most=4)
    assert asked == [{"probe"}, {"probe"}, {"probe", "experiment"}, {"probe", "experiment"}]


class WithoutGpu(Untested):
    """A pod whose GPU its own check has found broken."""

    def has_gpu(self) -> bool:
        return False


def test_a_pod_asks_by_its_name_with_its_labels_and_without_those_of_a_gpu_that_is_broken(
    tmp_path: Path,
) -> None:
    (sound,) = asked_by_a_worker(tmp_path, [WHOLE], most=1).able
    assert (sound.pod, sound.gpu_gib, sound.labels) == ("pod", 80.0, LABELS)
    (broken,) = asked_by_a_worker(tmp_path, [WHOLE], most=1, fitness=WithoutGpu()).able
    assert (broken.pod, broken.gpu_gib, broken.labels) == ("pod", 0.0, {"rack": "a4"})


@dataclass
class Sick(Untested):
    """A pod that may claim what `fits` says, turn by turn, and whose checks take so long at the start."""

    clock: ManualClock
    fits: list[set[str]]
    checked_at_s: float = 0.0
    heard: list[End] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def hear_failure(self, code: str, message: str) -> None:
        self.failures.append((code, message))

    def fit(self, kinds: Iterable[str]) -> frozenset[str]:
        return frozenset(kinds) & (self.fits.pop(0) if len(self.fits) > 1 else self.fits[0])

    def is_awaited(self, kinds: Collection[str]) -> bool:
        return self.clock.monotonic_s() < self.checked_at_s

    def hear_end(self, end: End, kind: str) -> None:
        self.heard.append(end)


class Slow(Sick):
    """A pod that may claim nothing before its checks are made."""

    def fit(self, kinds: Iterable[str]) -> frozenset[str]:
        return frozenset() if self.is_awaited(frozenset(kinds)) else frozenset(kinds)


def test_a_pod_asks_for_no_kind_that_a_check_keeps_from_it_and_for_nothing_where_none_is_left(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    sick = Sick(clock, [{"probe"}, set(), set(), {"experiment", "probe"}])
    queue = asked_by_a_worker(tmp_path, [WHOLE], most=2, clock=clock, fitness=sick)
    assert queue.asked == [{"probe"}, {"experiment", "probe"}]
    assert queue.asked_at_s[1] >= 3 * POLL_S, "it looked twice in vain"


def test_where_every_kind_waits_for_a_check_the_first_claim_follows_it_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    sick = Slow(clock, [set()], checked_at_s=1.0)
    queue = asked_by_a_worker(tmp_path, [WHOLE], most=1, clock=clock, fitness=sick)
    assert 1.0 <= queue.asked_at_s[0] <= 1.1


@pytest.mark.parametrize("checked_at_s", [0.1, 60.0])
def test_checks_hold_up_the_first_claim_for_a_moment_only(tmp_path: Path, checked_at_s: float) -> None:
    clock = ManualClock()
    sick = Sick(clock, [{"probe"}], checked_at_s)
    queue = asked_by_a_worker(tmp_path, [WHOLE], most=1, clock=clock, fitness=sick)
    assert queue.asked_at_s[0] <= min(checked_at_s, CHECKED_WITHIN_S) + 0.05


def test_the_end_of_an_attempt_is_evidence_for_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = End("failed", "MODEL_UNAUTHORISED", "the key is refused")
    monkeypatch.setattr("pod_worker.worker.Attempt", lambda *_: BriefAttempt(gave_back=False, how=end))
    claim, clock = Claim("runs", "r", 1, "t", "experiment", {}, None), ManualClock()
    sick = Sick(clock, [{"experiment"}])
    asked_by_a_worker(tmp_path, [WHOLE], [WHOLE], runs=[claim], most=2, clock=clock, fitness=sick)
    assert sick.heard == [end]


def test_after_a_load_that_broke_its_process_nothing_is_claimed_before_the_load_is_done(
    tmp_path: Path,
) -> None:
    asked = kinds_asked_for(tmp_path, [PROBE, BROKEN], [PROBE, BROKEN], [PROBE, WHOLE], most=2)
    assert asked == [{"probe"}, {"probe", "experiment"}]


def test_a_machine_without_room_for_a_process_is_asked_again(tmp_path: Path) -> None:
    assert kinds_asked_for(tmp_path, [WHOLE], most=1, refused=3) == [{"probe", "experiment"}]


class RelentingClock(ManualClock):
    """At its tenth second the fleet lets the pod claim again."""

    roster: Roster | None = None

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        if self.roster is not None and self.monotonic_s() >= 10.0:
            self.roster.orders = NO_ORDERS


@pytest.mark.parametrize(
    "orders", [PodOrders(drain=False, cordon="a new disk"), PodOrders(drain=False, quarantine="it fails")]
)
def test_a_pod_that_is_held_back_asks_for_nothing_until_it_may(tmp_path: Path, orders: PodOrders) -> None:
    Intent(tmp_path / "claim.token").open("a" * 43)  # of a claim whose answer nobody saw
    queue = asked_by_a_worker(tmp_path, [WHOLE], most=2, clock=RelentingClock(), orders=orders)
    assert queue.asked_at_s[0] >= 10.0
    assert queue.recovered == 1  # what it may hold is found all the same


@dataclass
class Deaf:
    """A roster's way to the fleet that works at the third try."""

    tries: int = 0

    def report(self, report: object) -> PodOrders:
        self.tries += 1
        if self.tries < 3:
            raise Transient("control_plane_unreachable", "nobody answers")
        return NO_ORDERS


def test_a_pod_that_has_not_heard_its_orders_asks_for_nothing(tmp_path: Path) -> None:
    reports = Deaf()
    queue = asked_by_a_worker(tmp_path, [WHOLE], most=1, orders=None, reports=reports)
    assert (reports.tries, len(queue.asked)) == (3, 1)


@dataclass
class Told:
    """A roster's way to a fleet that gives this answer."""

    answer: PodOrders | Transient

    def report(self, report: object) -> PodOrders:
        if isinstance(self.answer, Transient):
            raise self.answer
        return self.answer


def test_an_attempt_that_an_older_store_hands_out_again_is_given_back(tmp_path: Path) -> None:
    claim = Claim("runs", "r", 1, "new", "experiment", {}, None)
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox, "r", token="old")
        outbox.append(claim.attempt_id, make_logs(1))
    queue = asked_by_a_worker(tmp_path, [WHOLE], [WHOLE], runs=[claim], most=2)
    (_, cut_off), (token, given_back) = queue.settled
    assert cut_off.code == "POD_LOST"
    assert (token, given_back.outcome, given_back.code) == ("new", "preempted", "attempt_closed")
    assert len(queue.asked) == 2, "it goes on"


class DrainingClock(ManualClock):
    """At its third second the fleet orders the pod to take nothing new."""

    roster: Roster | None = None

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        if self.roster is not None and self.monotonic_s() >= 3.0:
            self.roster.orders = PodOrders(drain=True)


@dataclass
class BriefAttempt:
    """An attempt that ends at once."""

    gave_back: bool
    how: End | None = None

    def run(self) -> None:
        pass


@pytest.mark.parametrize(("gave_back", "wait_s"), [(True, LEFT_TO_OTHERS_S), (False, 0.0)])
def test_a_run_that_its_pipeline_gave_back_is_left_to_other_pods_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gave_back: bool, wait_s: float
) -> None:
    monkeypatch.setattr("pod_worker.worker.Attempt", lambda *_: BriefAttempt(gave_back))
    claim = Claim("runs", "r", 1, "t", "experiment", {}, None)
    queue = asked_by_a_worker(tmp_path, [WHOLE], [WHOLE], runs=[claim], most=3, idle_exit_s=10.0)
    first, second, third = queue.asked_at_s
    assert second - first == wait_s
    assert third - second < 3, "it makes way once, and a wait to make way is no idleness"


def test_a_pod_that_makes_way_hears_that_it_is_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pod_worker.worker.Attempt", lambda *_: BriefAttempt(gave_back=True))
    claim = Claim("runs", "r", 1, "t", "experiment", {}, None)
    clock = DrainingClock()
    fleet = Told(PodOrders(drain=True))
    queue = asked_by_a_worker(tmp_path, [WHOLE], [WHOLE], runs=[claim], most=9, clock=clock, reports=fleet)
    assert len(queue.asked) == 1
    assert clock.monotonic_s() < 3.0 + 2 * POLL_S


@pytest.mark.parametrize(
    ("answer", "asked"),
    [(NO_ORDERS, 3), (PodOrders(drain=True), 0), (Transient("mongodb_unreachable", "nobody answers"), 0)],
    ids=["taken back", "in force", "unknown"],
)
@pytest.mark.parametrize("heard", [PodOrders(drain=True), PodOrders(drain=False, restart=True)])
def test_a_worker_leaves_only_by_an_order_that_nobody_has_taken_back(
    tmp_path: Path, heard: PodOrders, answer: PodOrders | Transient, asked: int
) -> None:
    queue = asked_by_a_worker(tmp_path, [WHOLE], most=3, orders=heard, reports=Told(answer))
    assert len(queue.asked) == asked


def test_a_process_that_does_not_start_is_told_by_the_pods_checks(tmp_path: Path) -> None:
    clock = ManualClock()
    sick = Sick(clock=clock, fits=[{"probe"}])
    kinds_asked_for(tmp_path, [BROKEN], [PROBE], most=1, refused=1, clock=clock, fitness=sick)
    assert sick.failures == [
        ("START_FAILED", "no room for another process"),
        ("START_FAILED", "the pipeline's process exited with status 1 before it was ready"),
    ]


def test_wake_ups_in_vain_do_not_make_a_worker_claim_without_a_pause(tmp_path: Path) -> None:
    clock = ManualClock()
    ringing = Ringing(clock)
    asked = asked_by_a_worker(tmp_path, [WHOLE], most=400, idle_exit_s=60.0, clock=clock, pauses=ringing)
    most = (VAIN_MAX + 1) * (60.0 / POLL_S + 1)
    assert 60.0 / (2 * POLL_S) < len(asked.asked_at_s) <= most, "the pauses are those without wake-ups"
    assert ringing.rings > VAIN_MAX, "it hears again after a pause"


def test_a_run_that_comes_after_wake_ups_in_vain_is_asked_for_within_two_seconds(tmp_path: Path) -> None:
    clock = ManualClock()
    how: dict[str, Any] = {"most": 40, "clock": clock, "pauses": Ringing(clock)}
    at_s = asked_by_a_worker(tmp_path, [WHOLE], **how).asked_at_s
    assert len(at_s) == how["most"]
    assert max(later - earlier for earlier, later in pairwise(at_s)) <= 2.0
