"""The start of a race in the worker: both sides of the barrier, and a child that lies."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from events.catalog import SECONDS_MAX, LaneReady, LaneStarted
from events.delivery.pipe import Began, FromChild, Go, Waiting, decode_child, decode_parent, encode
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim, Orders
from events.runtime.clock import instant
from events.runtime.errors import ConfigError, LeaseLost, Transient
from events.runtime.measured_clock import MeasuredClock
from pod_worker.attempt.barrier import LOOK_EVERY_S, Barrier
from pod_worker.attempt.heartbeat import Heartbeat, Pulse
from pod_worker.attempt.lease import grant
from pod_worker.child.barrier import ChildBarrier
from pod_worker.machine.address import Address

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
AHEAD_S = 3600.0  # the machine's own clock is an hour wrong
CLAIM = Claim("runs", "r", 1, "token", "probe", {}, None, barrier=True)


@dataclass(slots=True)
class HandClock:
    """A clock that is moved by hand, of a machine whose wall clock is wrong."""

    second: float = 100.0
    waited: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.second + AHEAD_S)

    def monotonic_s(self) -> float:
        return self.second

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        if flag.is_set():
            return True
        self.waited.append(seconds)
        self.second += seconds
        return flag.is_set()


@dataclass(slots=True)
class Store:
    """Renews, by a clock that is right; each answer takes `trip_s`."""

    clock: HandClock
    trip_s: float = 0.02
    start_at: datetime | None = None
    problem: Exception | None = None

    def renew(self, claim: Claim) -> Orders:
        self.clock.second += self.trip_s / 2
        now = self.moment()
        self.clock.second += self.trip_s / 2
        if self.problem is not None:
            raise self.problem
        return Orders(start_at=self.start_at, now=now)

    def moment(self) -> datetime:
        return EPOCH + timedelta(milliseconds=int(self.clock.second * 1000))


@dataclass(slots=True)
class Scene:
    clock: HandClock = field(default_factory=HandClock)
    gone: list[Go] = field(default_factory=list)
    store: Store = field(init=False)
    beat: Heartbeat = field(init=False)
    barrier: Barrier = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.clock)
        stores = MeasuredClock(self.clock)
        pulse = Pulse(grant(requested_at=instant(self.clock), ttl_s=60.0))
        self.beat = Heartbeat(CLAIM, self.store, self.clock, pulse, stores=stores)
        self.barrier = Barrier(self.clock, stores, self.beat, self.gone.append, is_raced=True)

    def is_hurried(self) -> bool:
        """Return whether a renewal was asked for, which is then made."""
        if not self.beat._hurry.is_set():
            return False
        self.beat._hurry.clear()
        self.beat.run_once()
        return True

    def started(self, at_s: float) -> LaneStarted:
        (fact,) = self.barrier.hear(Began(at_s))
        assert isinstance(fact, LaneStarted)
        return fact


def facts(*lists: list[Fact]) -> list[Fact]:
    return [each for facts in lists for each in facts]


def test_a_lane_is_ready_once_it_was_heard_of_since_and_starts_at_the_stores_moment() -> None:
    scene = Scene()
    assert scene.barrier.turn() == []
    assert not scene.barrier.is_waiting()
    assert scene.barrier.hear(Waiting()) == []
    assert scene.barrier.turn() == []
    assert scene.barrier.is_waiting()
    assert scene.is_hurried()
    (ready,) = scene.barrier.turn()
    assert isinstance(ready, LaneReady)
    assert ready.offset_s == pytest.approx(AHEAD_S, abs=0.02)
    assert ready.bound_s <= 0.011
    assert ready.hears_s == pytest.approx(LOOK_EVERY_S + 0.02)
    scene.store.start_at = scene.store.moment() + timedelta(seconds=2)
    assert scene.barrier.turn() == []
    assert not scene.is_hurried()
    scene.clock.second += LOOK_EVERY_S
    assert scene.barrier.turn() == []
    assert scene.is_hurried()
    assert scene.barrier.turn() == []
    (go,) = scene.gone
    due_s = (scene.store.start_at - EPOCH).total_seconds()
    assert go.at_s == pytest.approx(due_s, abs=ready.bound_s)
    assert scene.barrier.is_waiting()
    scene.clock.second = due_s + 1
    assert not scene.barrier.is_waiting()  # from here on it is the child's own time
    started = scene.started(go.at_s + 0.003)
    assert (started.agreed, started.late_s, started.ready_late_s) == (scene.store.start_at, 0.003, 0.0)
    assert scene.barrier.turn() == scene.barrier.hear(Began(go.at_s)) == []
    assert len(scene.gone) == 1


def test_a_lane_that_is_ready_after_the_moment_starts_at_once_and_says_how_late() -> None:
    scene = Scene()
    scene.store.start_at = scene.store.moment() - timedelta(seconds=7)
    scene.barrier.hear(Waiting())
    scene.barrier.turn()
    assert scene.is_hurried()
    assert [type(each) for each in scene.barrier.turn()] == [LaneReady]
    (go,) = scene.gone
    assert go.at_s < scene.clock.monotonic_s()
    started = scene.started(scene.clock.monotonic_s())
    assert started.ready_late_s == pytest.approx(7.0, abs=0.05)
    assert started.late_s >= started.ready_late_s


def test_a_renewal_that_was_asked_before_the_child_was_ready_does_not_make_it_so() -> None:
    scene = Scene()
    scene.beat.run_once()
    scene.clock.second += 0.001
    scene.barrier.hear(Waiting())
    assert scene.barrier.turn() == []
    assert scene.is_hurried()
    assert len(scene.barrier.turn()) == 1


@pytest.mark.parametrize("problem", [Transient("away", "nobody answers"), LeaseLost(CLAIM.attempt_id)])
def test_without_an_answer_a_lane_is_not_ready(problem: Exception) -> None:
    scene = Scene()
    scene.store.problem = problem
    scene.barrier.hear(Waiting())
    scene.barrier.turn()
    try:
        assert scene.is_hurried()
    except Transient:
        assert isinstance(problem, Transient)
    assert scene.barrier.turn() == []
    assert scene.gone == []


def test_a_run_of_no_race_goes_on_at_once_and_says_nothing() -> None:
    scene = Scene()
    scene.barrier.is_raced = False
    assert facts(scene.barrier.hear(Waiting()), scene.barrier.turn()) == []
    assert scene.gone == [Go(100.0)]
    assert scene.barrier.hear(Began(100.1)) == []
    assert not scene.barrier.is_waiting()


@pytest.mark.parametrize("said", [1e300, -1e300, float("nan"), float("inf")])
def test_a_child_that_lies_about_its_start_is_told_within_bounds(said: float) -> None:
    scene = Scene()
    assert scene.barrier.hear(Began(said)) == []  # nobody let it begin
    scene.barrier.hear(Waiting())
    scene.barrier.hear(Waiting())
    scene.barrier.turn()
    scene.is_hurried()
    assert scene.barrier.hear(Began(said)) == []
    scene.store.start_at = scene.store.moment()
    scene.clock.second += 1
    scene.barrier.turn()
    scene.is_hurried()
    scene.barrier.turn()
    started = scene.started(said)
    assert -SECONDS_MAX <= started.late_s <= SECONDS_MAX
    msgspec.convert(msgspec.to_builtins(started), LaneStarted)


def test_the_childs_side_waits_for_the_second_that_it_is_told() -> None:
    clock, sent = HandClock(), list[FromChild]()
    barrier = ChildBarrier(sent.append, clock, is_open=False)
    barrier.hear(Go(103.0))
    barrier.hear(Go(500.0))
    barrier.wait()
    assert sent == [Waiting(), Began(103.0)]
    assert clock.waited == [3.0]
    barrier.wait()
    assert len(sent) == 2


def test_the_childs_side_of_a_run_alone_neither_waits_nor_speaks() -> None:
    clock, sent = HandClock(), list[FromChild]()
    ChildBarrier(sent.append, clock, is_open=True).wait()
    assert (sent, clock.waited) == ([], [])


@pytest.mark.parametrize("frame", [Waiting(), Began(1.5)])
def test_frames_of_the_child_are_read_as_they_were_sent(frame: FromChild) -> None:
    assert decode_child(encode(frame)) == frame
    assert decode_parent(encode(Go(2.5))) == Go(2.5)


def test_a_child_that_repeats_itself_or_began_in_the_future_moves_no_moment() -> None:
    scene = Scene()
    scene.barrier.hear(Waiting())
    first_s = scene.clock.second
    scene.clock.second += 1
    scene.barrier.hear(Waiting())
    assert scene.barrier.ready_s == first_s
    scene.store.start_at = scene.store.moment()
    scene.barrier.turn()
    assert scene.is_hurried()
    scene.barrier.turn()
    (go,) = scene.gone
    scene.clock.second += 1
    assert scene.started(1e9).late_s == pytest.approx(scene.clock.second - go.at_s)


@pytest.mark.parametrize(
    ("setting", "host", "ports"),
    [
        ("10.0.0.7", "10.0.0.7", []),
        ("pod-7.vpn.example", "pod-7.vpn.example", []),
        ("fd00::7", "fd00::7", []),
        ("gateway:29500-29502", "gateway", [29500, 29501, 29502]),
        ("[fd00::7]:29500", "fd00::7", [29500]),
    ],
)
def test_a_pod_says_the_address_and_a_port_that_its_operator_named(
    setting: str, host: str, ports: list[int]
) -> None:
    said, _, port = Address.read(setting).free().rpartition(":")
    assert said == host
    assert int(port) in ports if ports else int(port) > 0
    msgspec.convert({"offset_s": 0, "bound_s": 0, "hears_s": 0, "address": f"{said}:{port}"}, LaneReady)


def test_a_port_that_somebody_has_is_not_named() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        found = {Address("h", range(port, port + 2)).free() for _ in range(3)}
        assert found == {f"h:{port + 1}"}
        assert Address("h", range(port, port + 1)).free() == f"h:{port}"


@pytest.mark.parametrize(
    "setting", ["http://pod", "pod:0", "pod:5-4", "pod:70000", "::", "a b", "pod:", "::1:80-81", "-x"]
)
def test_an_address_that_is_none_is_named_with_what_to_write(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"PODFLEET_ADDRESS is .*write HOST"):
        Address.read(setting)


@pytest.mark.parametrize(
    "said", ["pod", "pod:x", "a b:1", "pod:123456", "http://pod:1", "$(x):1", "p" * 254 + ":1"]
)
def test_a_pod_that_says_no_address_is_not_believed(said: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"offset_s": 0, "bound_s": 0, "hears_s": 0, "address": said}, LaneReady)
