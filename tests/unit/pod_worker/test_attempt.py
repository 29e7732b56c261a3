"""One attempt under a clock that is told the time: lease, orders, limits, a disk without room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events.catalog import Price, RunCompleted, RunFailed, RunLog, RunPreempted, RunStarted, RunUsage
from events.delivery.event_encoder import fact_frame
from events.delivery.outbox import Outbox
from events.delivery.pipe import (
    Checkpoint,
    ContainerTold,
    Environment,
    FactFrame,
    Go,
    Kept,
    Made,
    Renewed,
    Start,
    Waiting,
)
from events.files.checkpoints import MANIFEST, emptied
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim, Orders
from events.queue.notes import Note
from events.queue.settlement import End
from events.runtime.clock import instant
from events.runtime.errors import LeaseLost, Rejected, Transient
from events.testing import FIRST, RUN_ID, SOURCE, ManualClock, SeededIds, make_outbox
from events.text.attempt_id import AttemptId
from events.text.secret_names import USER_TOKEN
from pod_worker.attempt.attempt import Attempt, Ports
from pod_worker.attempt.heartbeat import Heartbeat, Pulse
from pod_worker.attempt.lease import grant
from pod_worker.attempt.secret_values import Values
from pod_worker.attempt.usage import Rate, usage_of
from pod_worker.child.exit_status import Exited, Signalled
from pod_worker.child.process import Exit, Listener
from pod_worker.files.fetch_result import Fetched
from pod_worker.files.uploads import NotStored

TTL_S = 60.0
NOTES = tuple(Note(number, f"note {number}", "user:somebody") for number in range(1, 5))


class Timetable(ManualClock):
    """A clock on which things happen: `at(12.0, event)` calls it when that second has come."""

    def __init__(self) -> None:
        super().__init__()
        self.wall_s = 0.0  # by how much the wall clock was put forward
        self._events: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> Any:
        return super().now() + timedelta(seconds=self.wall_s)

    def at(self, second: float, event: Callable[[], None]) -> None:
        self._events.append((second, event))
        self._events.sort(key=lambda each: each[0])

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        while self._events and self._events[0][0] <= self.monotonic_s():
            self._events.pop(0)[1]()


@dataclass
class ScriptedChild:
    """A process whose life the test writes; it obeys SIGTERM unless it is deaf."""

    clock: Timetable
    is_deaf: bool = False
    signals: list[tuple[str, float]] = field(default_factory=list)
    order: Start | None = None
    kept: list[Kept] = field(default_factory=list)
    gone: list[float] = field(default_factory=list)
    told: list[tuple[int, float]] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    renewed: list[tuple[dict[str, str], float]] = field(default_factory=list)
    _listener: Listener | None = None
    _exit: Exit | None = None

    def start(self, order: Start, listener: Listener) -> None:
        self.order, self._listener = order, listener
        self.found = sorted(each.name for each in Path(order.restored).glob("*"))

    def say(self, *facts: Fact) -> None:
        assert self._listener is not None
        for fact in facts:
            self._listener(fact_frame(fact))

    def frame(self, frame: Waiting) -> None:
        assert self._listener is not None
        self._listener(frame)

    def hand_over(self, made: Made) -> None:
        assert self._listener is not None
        self._listener(made)

    def end(self, end: Exited | Signalled, final: str | None = None) -> None:
        if self._exit is None:
            self._exit = Exit(end=end, final=final, oom_evidence=False, last_words="")

    def complete(self) -> None:
        self.say(RunCompleted(summary="done"))
        self.end(Exited(0))

    @property
    def work(self) -> None:
        return None

    def join(self, limit_s: float) -> Exit | None:
        return self._exit

    def answer(self, answer: Kept | Environment | ContainerTold) -> None:
        assert isinstance(answer, Kept)
        self.kept.append(answer)

    def tell(self, note: Note) -> None:
        self.told.append((note.number, round(self.clock.monotonic_s(), 1)))

    def begin(self, go: Go) -> None:
        self.gone.append(go.at_s)

    def renew(self, renewed: Renewed) -> None:
        self.renewed.append((renewed.secrets, round(self.clock.monotonic_s(), 1)))

    def terminate(self) -> None:
        self._note("terminate")
        if not self.is_deaf:
            self.end(Signalled(15))

    def suspend(self) -> None:
        self._note("suspend")

    def resume(self) -> None:
        self._note("resume")

    def kill(self) -> None:
        self._note("kill")
        self.end(Signalled(9))

    def names(self) -> list[str]:
        return [name for name, _ in self.signals]

    def second_of(self, name: str) -> float:
        return next(second for each, second in self.signals if each == name)

    def _note(self, name: str) -> None:
        if not self.signals or self.signals[-1][0] != name:
            self.signals.append((name, round(self.clock.monotonic_s(), 1)))


@dataclass
class Store:
    """The queue as the owner of one run sees it."""

    settled: list[tuple[End, int]] = field(default_factory=list)
    answer: Orders | Exception = field(default_factory=lambda: Orders(cancel=False))

    def renew(self, claim: Claim) -> Orders:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        self.settled.append((how, last))


@dataclass
class Files:
    """Uploads that take as long as the test says."""

    waiting: bool = False
    said: list[str] = field(default_factory=list)
    clock: Timetable | None = None
    problem: str | None = None  # of every checkpoint
    checkpoints: dict[str, bytes] = field(default_factory=dict)  # the manifests, by their names

    def add(self, claim: Claim, made: Made) -> None: ...

    def add_checkpoint(self, claim: Claim, checkpoint: Checkpoint, answer: Callable[[Kept], None]) -> None:
        manifest = Path(checkpoint.files[-1].path)
        self.checkpoints[checkpoint.name] = manifest.read_bytes() if manifest.exists() else b""
        answer(Kept(checkpoint.number, self.problem))

    def drain(self, claim: Claim, *, deadline_s: float) -> NotStored | None:
        assert self.clock is not None
        self.clock.advance(deadline_s - self.clock.monotonic_s())
        return NotStored("1 files are not uploaded yet") if self.waiting else None

    def has_waiting(self, claim: Claim) -> bool:
        return self.waiting

    def suspend(self) -> None:
        self.said.append("suspend")

    def resume(self) -> None:
        self.said.append("resume")

    def forget(self, claim: Claim) -> None:
        self.said.append("forget")


@dataclass
class Earlier:
    """What earlier attempts left: checkpoints that can be had from a certain second on."""

    clock: Timetable
    from_s: float = 0.0
    stages: tuple[str, ...] = ("Stage_1",)
    warnings: list[str] = field(default_factory=list)
    asked: int = 0
    emptied: tuple[str, ...] = ()
    replication_asked: bool = False
    told: dict[str, Any] = field(default_factory=dict)
    spent_usd: float | None = None

    def fetch(self, claim: Claim, folder: Path) -> Fetched:
        self.asked += 1
        folder.mkdir(parents=True, exist_ok=True)
        for stage in self.stages:
            (folder / stage).mkdir(exist_ok=True)
            (folder / stage / MANIFEST).touch()
        if self.clock.monotonic_s() < self.from_s:
            raise Transient("away", "the control plane does not answer")
        pods = {each: ["alpha", ""] for each in self.stages if each not in self.emptied}
        return Fetched(self.warnings, pods, self.replication_asked, self.told, self.spent_usd)


@dataclass
class Held:
    """The control plane's secrets, which can be had from the third time on that they are asked for."""

    found: Values = field(default_factory=lambda: Values({}))
    failures: int = 2
    asked: int = 0
    renewals: int = 0

    def fetch(self, claim: Claim) -> Values:
        self.asked += 1
        if self.asked <= self.failures:
            raise Transient("away", "no answer")
        return self.found

    def renewed(self, claim: Claim) -> Values:
        self.renewals += 1
        return self.fetch(claim)


@dataclass
class Shelf:
    """Where the trees of runs lie; an error is raised once for each that is given."""

    errors: list[Exception] = field(default_factory=list)
    held: list[str] = field(default_factory=list)

    @contextmanager
    def used(self, claim: Claim, check: Callable[[], None]) -> Iterator[dict[str, str]]:
        check()
        if self.errors:
            raise self.errors.pop(0)
        self.held.append(claim.run_id)
        yield {"a" * 64: "/trees/a"}
        self.held.remove(claim.run_id)


@dataclass
class Scene:
    """One attempt with everything around it."""

    clock: Timetable
    child: ScriptedChild
    store: Store
    files: Files
    outbox: Outbox
    stop: threading.Event
    folder: Path
    earlier: Earlier
    shown: list[bool] = field(default_factory=list)
    secrets: Held = field(default_factory=lambda: Held())
    shelf: Shelf = field(default_factory=Shelf)

    def attempt(
        self,
        spec: Mapping[str, Any] | None = None,
        *,
        number: int = 1,
        beats: bool = True,
        rate: Rate | None = None,
        **fields: Any,
    ) -> Attempt:
        claim = Claim("runs", RUN_ID, number, "token-1", "probe", spec or {}, None)
        claim = replace(claim, lease_s=TTL_S, **fields)
        self.outbox.open_attempt(AttemptId(RUN_ID, number), token="token-1", source=SOURCE, collection="runs")
        ports = Ports(
            queue=self.store, outbox=self.outbox, uploads=self.files, checkpoints=self.earlier,
            secrets=self.secrets,
            clock=self.clock, ids=SeededIds(), threads=lambda name, work: None,
            work=self.folder / "work", stop=self.stop, rate=rate or Rate(), trees=self.shelf,
        )  # fmt: skip
        start = grant(requested_at=instant(self.clock), ttl_s=TTL_S)
        pulse = Pulse(start, paused=claim.paused, notes=claim.notes)
        heartbeat = Heartbeat(claim, self.store, self.clock, pulse)
        if beats:
            for second in range(10, 4000, 10):
                self.clock.at(float(second), lambda: _beat(heartbeat))
        return Attempt(ports, claim, self.child, heartbeat, self.shown.append)

    def log(self) -> list[str]:
        rows = self.outbox.batch(1_000, 1 << 30)
        return [msgspec.json.decode(row.line)["type"].removeprefix("ai.run.") for row in rows]

    def usages(self) -> list[dict[str, Any]]:
        """Return what was said about the pod's cost."""
        lines = [msgspec.json.decode(row.line) for row in self.outbox.batch(1_000, 1 << 30)]
        return [line["data"] for line in lines if line["type"] == "ai.run.usage"]

    def orders(self, second: float, **orders: Any) -> None:
        """Let the store want something from the next renewal after `second` on."""
        self.clock.at(second, lambda: setattr(self.store, "answer", Orders(**orders)))

    def code(self) -> str | None:
        ((how, _),) = self.store.settled
        return how.code


def _beat(heartbeat: Heartbeat) -> None:
    try:
        heartbeat.run_once()
    except Transient:
        return  # nobody knows: the next beat asks again


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    clock = Timetable()
    with make_outbox(tmp_path, clock=clock) as outbox:
        files = Files(clock=clock)
        child, stop, earlier = ScriptedChild(clock), threading.Event(), Earlier(clock)
        yield Scene(clock, child, Store(), files, outbox, stop, tmp_path, earlier)


def test_a_run_is_recorded_in_order_and_settled_with_its_last_sequence(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted(), RunLog(message="one")))
    scene.clock.at(2, scene.child.complete)
    scene.attempt().run()
    assert scene.log() == ["started", "log", "completed"]
    assert scene.store.settled == [(End("completed", message="done"), 3)]
    assert not (scene.folder / "work").exists() or not list((scene.folder / "work").iterdir())


def test_without_trust_child_and_uploads_stand_still_until_a_renewal(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(25, lambda: setattr(scene.store, "answer", Transient("away", "no answer")))
    scene.clock.at(139, lambda: setattr(scene.store, "answer", Orders(cancel=False)))
    scene.clock.at(150, scene.child.complete)
    scene.attempt().run()
    # renewed at 20; trusted for 55 of the 60 seconds
    assert scene.child.names() == ["suspend", "resume"]
    assert scene.child.second_of("suspend") == pytest.approx(75, abs=0.2)
    assert scene.child.second_of("resume") == pytest.approx(140, abs=0.2)
    assert scene.files.said == ["suspend", "resume", "forget"]
    assert scene.shown == [True, False]
    assert scene.store.settled[0][0].outcome == "completed"


def test_a_wall_clock_that_was_put_forward_costs_one_renewal_at_once(scene: Scene) -> None:
    attempt = scene.attempt(beats=False)

    def renew_if_hurried() -> None:
        if attempt.heartbeat._hurry.is_set():
            attempt.heartbeat.run_once()

    scene.clock.at(5, lambda: setattr(scene.clock, "wall_s", 3600.0))
    scene.clock.at(6, renew_if_hurried)
    scene.clock.at(10, scene.child.complete)
    attempt.run()
    assert scene.child.names() == ["suspend", "resume"]
    assert scene.child.second_of("resume") == pytest.approx(6, abs=0.2)
    assert scene.store.settled[0][0].outcome == "completed"


def test_a_lost_lease_kills_and_writes_nothing(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(25, lambda: setattr(scene.store, "answer", LeaseLost(FIRST)))
    scene.attempt().run()
    assert scene.child.names() == ["kill"]
    assert scene.store.settled == []
    assert scene.log() == ["started"]
    assert scene.outbox.unended() == scene.outbox.unsettled() == []


def test_half_an_hour_without_an_answer_ends_the_wait(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(25, lambda: setattr(scene.store, "answer", Transient("away", "no answer")))
    scene.attempt().run()
    assert scene.child.names() == ["suspend", "kill"]
    assert scene.child.second_of("kill") == pytest.approx(20 + 1800, abs=1)
    assert scene.store.settled == []
    assert scene.files.said == ["suspend", "forget", "resume"]  # the next attempt's files may go


def test_after_a_pause_the_lease_is_looked_at_before_anything_is_recorded(scene: Scene) -> None:
    attempt = scene.attempt(beats=False)

    def wake_up_late() -> None:
        scene.child.say(RunLog(message="said before the pause"))
        scene.clock.advance(200)
        scene.store.answer = LeaseLost(FIRST)
        scene.clock.at(230, lambda: _beat(attempt.heartbeat))

    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(2, wake_up_late)
    attempt.run()
    assert scene.child.names() == ["suspend", "kill"]
    assert scene.store.settled == []


def test_a_machine_that_was_paused_distrusts_its_lease_by_the_wall_clock(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(5, lambda: setattr(scene.clock, "wall_s", 3600.0))
    scene.clock.at(15, scene.child.complete)
    scene.attempt().run()
    assert scene.child.second_of("suspend") == pytest.approx(5, abs=0.2)
    assert scene.child.second_of("resume") == pytest.approx(10, abs=0.2)  # asked for after the pause
    assert scene.store.settled[0][0].outcome == "completed"


def test_a_cancel_gives_thirty_seconds_of_grace_to_a_deaf_child(scene: Scene) -> None:
    scene.child.is_deaf = True
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(12, lambda: setattr(scene.store, "answer", Orders(cancel=True)))
    scene.attempt().run()
    assert scene.child.names() == ["terminate", "kill"]
    assert scene.child.second_of("terminate") == pytest.approx(20, abs=0.3)
    assert scene.child.second_of("kill") == pytest.approx(50, abs=0.5)
    assert scene.store.settled[0][0].outcome == "canceled"


def test_a_stop_releases_the_run_within_five_seconds_even_with_files_left(scene: Scene) -> None:
    scene.child.is_deaf = True
    scene.files.waiting = True
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(100, scene.stop.set)
    scene.attempt().run()
    assert scene.store.settled[0][0].outcome == "preempted"
    assert scene.clock.monotonic_s() < 100 + 4


@pytest.mark.parametrize(("order", "outcome"), [("stop", "preempted"), ("cancel", "canceled")])
def test_an_order_ends_the_wait_for_files_without_charging_a_failure(
    scene: Scene, order: str, outcome: str
) -> None:
    scene.files.waiting = True
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(2, scene.child.complete)
    if order == "stop":
        scene.clock.at(300, scene.stop.set)
    else:
        scene.clock.at(295, lambda: setattr(scene.store, "answer", Orders(cancel=True)))
    scene.attempt().run()
    assert scene.store.settled[0][0].outcome == outcome
    assert 300 <= scene.clock.monotonic_s() < 302


@pytest.mark.parametrize(
    ("spec", "says", "code", "after_s"),
    [
        ({"start_limit_s": 30}, False, "START_TIMEOUT", 30),
        ({"no_progress_s": 40}, True, "NO_PROGRESS", 41),
        ({"time_limit_s": 50}, True, "TIMEOUT", 50),
    ],
)
def test_each_limit_ends_a_silent_child_with_its_own_code(
    scene: Scene, spec: Mapping[str, Any], says: bool, code: str, after_s: float
) -> None:
    if says:
        scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.attempt(spec).run()
    assert scene.code() == code
    assert scene.child.second_of("kill") == pytest.approx(after_s, abs=0.5)


@pytest.mark.parametrize(("is_deaf", "killed_s"), [(False, None), (True, 100)])
def test_a_budget_ends_the_attempt_while_it_lasts(
    scene: Scene, is_deaf: bool, killed_s: float | None
) -> None:
    scene.child.is_deaf = is_deaf
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.orders(20, paused=True)  # a paused run costs as much
    scene.attempt({"budget_usd": 0.1}, rate=Rate(1, 3.6)).run()
    ((how, _),) = scene.store.settled
    assert (how.code, how.retryable) == ("BUDGET_SPENT", False)
    assert scene.child.second_of("terminate") == pytest.approx(90, abs=0.5)
    if killed_s is not None:
        assert scene.child.second_of("kill") == pytest.approx(killed_s, abs=0.5)
    assert sum(each["cost_usd"] for each in scene.usages()) < 0.1 * 1.05


def test_a_budget_spares_what_completes_in_time(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(89, scene.child.complete)
    scene.attempt({"budget_usd": 0.1}, rate=Rate(1, 3.6)).run()
    assert scene.store.settled[0][0].outcome == "completed"


@pytest.mark.parametrize(
    ("number", "spent", "price", "code"),
    [
        (1, None, 3.6, None), (1, None, 0.0, None), (1, None, None, "NO_PRICE"),
        (1, None, 3600.0, "BUDGET_SPENT"), (2, None, 3.6, "BUDGET_UNKNOWN"), (2, 0.03, 3.6, None),
        (2, 0.05, 3.6, "BUDGET_SPENT"),
        (2, 0.2, 3.6, "BUDGET_SPENT"), (2, 0.2, 0.0, "BUDGET_SPENT"),
    ],
)  # fmt: skip
def test_an_attempt_begins_only_where_the_rest_of_the_budget_pays_for_a_minute(
    scene: Scene, number: int, spent: float | None, price: float | None, code: str | None
) -> None:
    scene.earlier.spent_usd = spent
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(30, scene.child.complete)
    scene.attempt({"budget_usd": 0.1}, number=number, rate=Rate(1, price)).run()
    assert scene.code() == code


def test_time_without_trust_counts_against_no_limit(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(25, lambda: setattr(scene.store, "answer", Transient("away", "no answer")))
    scene.clock.at(1024, lambda: setattr(scene.store, "answer", Orders(cancel=False)))
    scene.attempt({"time_limit_s": 100}).run()
    assert scene.code() == "TIMEOUT"
    assert scene.child.second_of("kill") == pytest.approx(1030 + 25, abs=1)  # 75 s before, 25 s after


def test_a_full_outbox_suspends_the_child_and_loses_nothing(scene: Scene, tmp_path: Path) -> None:
    tight = make_outbox(tmp_path / "tight", clock=scene.clock, bytes_max=1)
    with tight:
        scene.outbox = tight
        scene.clock.at(1, lambda: scene.child.say(RunStarted(), RunLog(message="kept")))
        scene.clock.at(900, lambda: setattr(tight, "_bytes_max", 1 << 30))
        scene.clock.at(950, scene.child.complete)
        scene.attempt().run()
        assert scene.child.names() == ["suspend", "resume"]
        assert scene.log() == ["started", "log", "completed"]


def test_a_disk_that_stays_full_is_a_named_failure(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    append = scene.outbox.append

    def refuse(attempt_id: AttemptId, facts: Any) -> int:
        if any(isinstance(each, FactFrame) and each.type == "ai.run.log" for each in facts):
            raise Transient("DISK_FULL", "the disk of the data directory takes no more")
        return append(attempt_id, facts)

    monkeypatch.setattr(scene.outbox, "append", refuse)
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(5, lambda: scene.child.say(RunLog(message="no room for me")))
    scene.clock.at(6, lambda: scene.child.say(RunCompleted()))
    scene.attempt().run()
    how, last = scene.store.settled[0]
    assert (how.outcome, how.code, how.retryable, last) == ("failed", "DISK_FULL", True, 2)
    assert scene.log() == ["started", "failed"]
    assert scene.child.second_of("kill") == pytest.approx(65, abs=2)


def test_a_disk_without_room_even_for_the_end_still_tells_the_store(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Any:
        raise Transient("DISK_FULL", "not even the reserve is left")

    monkeypatch.setattr(scene.outbox, "append_end", refuse)
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(2, scene.child.complete)
    scene.attempt().run()
    assert scene.store.settled == [(End("completed", message="done"), 1)]


def test_what_an_upload_said_belongs_to_a_record_whose_end_has_no_room(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = scene.outbox.append

    def refuse(*_: object) -> Any:
        append(FIRST, [RunLog(message="a file was kept meanwhile")])
        raise Transient("DISK_FULL", "not even the reserve is left")

    monkeypatch.setattr(scene.outbox, "append_end", refuse)
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(2, scene.child.complete)
    scene.attempt().run()
    assert scene.store.settled == [(End("completed", message="done"), 2)]


def test_a_first_attempt_asks_nobody_for_checkpoints(scene: Scene) -> None:
    scene.clock.at(1, scene.child.complete)
    scene.attempt().run()
    assert (scene.earlier.asked, scene.child.found) == (0, [])


def test_a_later_attempt_waits_for_its_checkpoints_and_says_what_is_wrong_with_them(scene: Scene) -> None:
    scene.earlier.from_s = 100
    scene.earlier.warnings = ["the checkpoint Stage_2 of attempt 1 is not used"]
    scene.clock.at(110, scene.child.complete)
    scene.attempt({"time_limit_s": 60, "start_limit_s": 60}, number=2).run()
    assert scene.child.found == ["Stage_1"]
    assert scene.log() == ["log", "completed"]
    assert scene.store.settled[0][0].outcome == "completed", "waiting counts against no limit"


def test_without_its_checkpoints_an_attempt_begins_at_the_start_and_says_so(scene: Scene) -> None:
    scene.earlier.from_s = 10_000
    scene.clock.at(310, scene.child.complete)
    scene.attempt(number=2).run()
    assert scene.child.found == [], "half a set would be a riddle"
    assert scene.log() == ["log", "completed"]
    assert scene.clock.monotonic_s() == pytest.approx(311, abs=3)


@pytest.mark.parametrize("order", ["stop", "cancel"])
def test_an_order_is_heard_while_checkpoints_are_waited_for(scene: Scene, order: str) -> None:
    scene.earlier.from_s = 10_000
    if order == "stop":
        scene.clock.at(40, scene.stop.set)
    else:
        scene.clock.at(35, lambda: setattr(scene.store, "answer", Orders(cancel=True)))
    scene.attempt(number=2).run()
    assert scene.store.settled[0][0].outcome == {"stop": "preempted", "cancel": "canceled"}[order]
    assert scene.clock.monotonic_s() < 45


def test_a_checkpoint_is_handed_over_and_answered_unless_its_files_are_foreign(scene: Scene) -> None:
    def hand_over(number: int, folder: str) -> None:
        path = scene.folder / folder / "manifest.json"
        listener = scene.child._listener
        assert listener is not None
        listener(Checkpoint(number, "Stage_1", [Made(str(path), "checkpoints/Stage_1/manifest.json", "x/y")]))

    attempt = scene.attempt()
    foreign = "a file lies outside the attempt's folder"
    scene.clock.at(1, lambda: hand_over(1, str(attempt.workspace)))
    scene.clock.at(2, lambda: hand_over(2, "elsewhere"))
    scene.clock.at(3, lambda: hand_over(3, "work/another-a1"))
    scene.clock.at(4, lambda: (attempt.workspace / "link").symlink_to(scene.folder))
    scene.clock.at(5, lambda: hand_over(5, str(attempt.workspace / "link")))

    def swap() -> None:
        attempt.workspace.rename(attempt.workspace.with_name("moved"))
        attempt.workspace.symlink_to(scene.folder)

    scene.clock.at(6, swap)
    scene.clock.at(7, lambda: hand_over(7, str(attempt.workspace)))
    scene.clock.at(8, scene.child.complete)
    attempt.run()
    assert scene.child.kept == [Kept(1), *(Kept(number, foreign) for number in (2, 3, 5, 7))]


def test_a_file_is_taken_out_of_the_attempts_own_folder_alone(scene: Scene) -> None:
    attempt = scene.attempt()
    folder = attempt.workspace

    def hand_over() -> None:
        (folder / "inner").mkdir()
        (folder / "link").symlink_to(scene.folder)
        for path in (
            folder / "inner" / "own",
            folder / "link" / "foreign",
            folder / "..",
            scene.folder / "other",
        ):
            scene.child.hand_over(Made(str(path), path.name, "x/y"))

    scene.clock.at(1, hand_over)
    scene.clock.at(2, scene.child.complete)
    attempt.run()
    said = [msgspec.json.decode(row.line) for row in scene.outbox.batch(1_000, 1 << 30)]
    assert [(each["type"], each["data"].get("code"), each["data"]["name"]) for each in said[:-1]] == [
        ("ai.artifact.detected", None, "own"),
        *(("ai.artifact.failed", "FOREIGN_FILE", name) for name in ("foreign", "..", "other")),
    ]


def test_the_stage_of_a_failure_is_a_name_whatever_the_child_said(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunLog(message="x", stage="s" * 100_000)))
    scene.clock.at(2, lambda: scene.child.end(Signalled(11)))
    scene.attempt().run()
    ((how, _),) = scene.store.settled
    assert how.stage == "s" * 200


def test_a_pause_stops_the_child_and_not_its_files_and_counts_against_no_limit(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.orders(15, paused=True)
    scene.orders(1015)
    scene.attempt({"time_limit_s": 100}).run()
    assert scene.child.names() == ["suspend", "resume", "kill"]
    assert scene.child.second_of("suspend") == pytest.approx(20, abs=0.2)
    assert scene.child.second_of("resume") == pytest.approx(1020, abs=0.2)
    assert scene.child.second_of("kill") == pytest.approx(1020 + 80, abs=1)  # 20 s before, 80 s after
    assert scene.code() == "TIMEOUT"
    assert scene.files.said == ["forget"], "what was made before may be uploaded"
    assert scene.shown == [True, False]


def test_the_wait_for_the_start_of_a_race_counts_against_no_limit(scene: Scene) -> None:
    def tell() -> None:
        scene.store.answer = Orders(start_at=scene.clock.now() + timedelta(seconds=25))

    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(11, lambda: scene.child.frame(Waiting()))
    scene.clock.at(995, tell)
    scene.attempt({"time_limit_s": 100}, barrier=True).run()
    assert scene.child.gone == [pytest.approx(1020, abs=0.5)]
    assert scene.child.second_of("kill") == pytest.approx(1020 + 89, abs=1)  # 11 s before, 89 s after
    assert scene.code() == "TIMEOUT"


def test_a_run_that_is_paused_when_it_is_claimed_does_not_begin(scene: Scene) -> None:
    scene.orders(0, paused=True)
    scene.orders(95)
    scene.clock.at(110, lambda: scene.child.say(RunStarted()))
    scene.clock.at(111, scene.child.complete)
    scene.attempt({"start_limit_s": 30}, paused=True).run()
    assert scene.child.names() == ["suspend", "resume"]
    assert scene.child.second_of("suspend") == 0.0
    assert scene.child.second_of("resume") == pytest.approx(100, abs=0.2)
    assert scene.store.settled[0][0].outcome == "completed"


@pytest.mark.parametrize(("order", "outcome"), [("stop", "preempted"), ("cancel", "canceled")])
def test_an_order_wakes_a_paused_child_so_that_it_hears_it(scene: Scene, order: str, outcome: str) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.child.is_deaf = True
    scene.orders(15, paused=True)
    if order == "stop":
        scene.clock.at(100, scene.stop.set)
    else:
        scene.orders(95, paused=True, cancel=True)
    scene.attempt().run()
    assert scene.child.names()[0] == "suspend"
    assert set(scene.child.names()[1:3]) == {"resume", "terminate"}
    assert scene.child.second_of("resume") == pytest.approx(100, abs=0.3)
    assert scene.store.settled[0][0].outcome == outcome


def test_a_pause_outlasts_a_lease_that_is_not_trusted_for_a_while(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.orders(15, paused=True)
    scene.clock.at(25, lambda: setattr(scene.store, "answer", Transient("away", "no answer")))
    scene.orders(139, paused=True)
    scene.orders(195)
    scene.clock.at(210, scene.child.complete)
    scene.attempt().run()
    assert scene.child.names() == ["suspend", "resume"]
    assert scene.child.second_of("suspend") == pytest.approx(20, abs=0.2)
    assert scene.child.second_of("resume") == pytest.approx(200, abs=0.2)
    assert scene.files.said == ["suspend", "resume", "forget"]
    assert scene.store.settled[0][0].outcome == "completed"


def test_notes_are_passed_on_once_each_and_in_order_also_while_the_child_stands_still(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.orders(5, notes=NOTES[:2])
    scene.orders(25, notes=NOTES[:3])
    scene.orders(35, notes=NOTES, paused=True)
    scene.orders(55, notes=NOTES)
    scene.clock.at(70, scene.child.complete)
    scene.attempt(notes=NOTES[:1]).run()
    assert scene.child.order is not None
    assert scene.child.order.notes == [NOTES[0]]
    assert [number for number, _ in scene.child.told] == [2, 3, 4]
    assert [second for _, second in scene.child.told] == pytest.approx([10, 30, 40], abs=0.2)


def test_a_pod_that_costs_money_says_so_every_minute_and_before_the_end(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.orders(65, paused=True)  # a pause costs as much as work
    scene.orders(125)
    scene.clock.at(150, scene.child.complete)
    scene.attempt(rate=Rate(gpus=2, usd_per_hour=36.0)).run()
    assert scene.log() == ["started", "usage", "usage", "usage", "completed"]
    usages = scene.usages()
    assert sum(each["seconds"] for each in usages) == pytest.approx(150, abs=0.3)
    assert [each["seconds"] for each in usages] == pytest.approx([60, 60, 30], abs=0.3)
    for each in usages:
        assert each["gpu_s"] == pytest.approx(2 * each["seconds"])
        assert each["cost_usd"] == pytest.approx(each["seconds"] / 100, abs=0.001)
        assert (each["purpose"], each["price"]) == ("pod", {"pod_usd_per_hour": 36.0})
    assert scene.store.settled[0][1] == 5


def test_a_pod_without_gpu_and_price_has_no_cost_to_tell(scene: Scene) -> None:
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(150, scene.child.complete)
    scene.attempt(rate=Rate()).run()
    assert scene.log() == ["started", "completed"]


def test_files_that_take_long_cost_money_too(scene: Scene) -> None:
    scene.files.waiting = True
    scene.clock.at(1, scene.child.complete)
    scene.clock.at(200, lambda: setattr(scene.files, "waiting", False))
    scene.attempt(rate=Rate(gpus=1)).run()
    assert [each["seconds"] for each in scene.usages()] == pytest.approx([60, 60, 60, 20], abs=0.5)
    assert all(each.get("cost_usd") is None for each in scene.usages())


def test_a_full_disk_lets_the_stretch_grow_and_loses_no_second(scene: Scene, tmp_path: Path) -> None:
    tight = make_outbox(tmp_path / "tight", clock=scene.clock, bytes_max=1)
    with tight:
        scene.outbox = tight
        scene.clock.at(1, lambda: scene.child.say(RunStarted()))
        scene.clock.at(900, lambda: setattr(tight, "_bytes_max", 1 << 30))
        scene.clock.at(950, scene.child.complete)
        scene.attempt(rate=Rate(gpus=1)).run()
        seconds = [each["seconds"] for each in scene.usages()]
        assert sum(seconds) == pytest.approx(950, abs=1)
        assert len(seconds) == 2


def test_an_end_that_leaves_no_room_for_its_cost_is_still_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = scene.outbox.append

    def refuse(attempt_id: AttemptId, facts: Any) -> int:
        if any(isinstance(each, RunUsage) for each in facts):
            raise Transient("OUTBOX_FULL", "the outbox holds all that it may")
        return append(attempt_id, facts)

    monkeypatch.setattr(scene.outbox, "append", refuse)
    scene.clock.at(1, lambda: scene.child.say(RunStarted()))
    scene.clock.at(2, scene.child.complete)
    scene.attempt(rate=Rate(gpus=1)).run()
    assert scene.log() == ["started", "completed"]
    assert scene.store.settled[0][0].outcome == "completed"


def test_what_a_stretch_cost_names_the_price_that_was_applied() -> None:
    assert usage_of(Rate(3, None), 10.0) == RunUsage(purpose="pod", seconds=10.0, gpu_s=30.0)
    free = usage_of(Rate(0, 0.0), 10.0)
    assert (free.cost_usd, free.gpu_s, free.price) == (0.0, 0.0, Price(pod_usd_per_hour=0.0))


def test_a_retry_of_a_part_fetches_checkpoints_at_its_first_attempt(scene: Scene) -> None:
    scene.earlier.stages = ("Stage_1", "Stage_2")
    scene.clock.at(10, scene.child.complete)
    scene.attempt(kind="experiment", from_stage="Stage_3").run()
    assert (scene.earlier.asked, scene.child.found) == (1, ["Stage_1", "Stage_2"])
    assert scene.store.settled[0][0].outcome == "completed"


def test_a_retry_of_a_part_does_not_pay_again_for_what_it_cannot_find(scene: Scene) -> None:
    scene.earlier.warnings = ["the checkpoint Stage_2 of attempt 1 of run X is not used: it rots"]
    scene.attempt(kind="experiment", from_stage="Stage_3").run()
    ((how, _),) = scene.store.settled
    assert (how.outcome, how.code, how.retryable) == ("failed", "CHECKPOINT_MISSING", False)
    assert "no checkpoint of Stage_2" in str(how.message)
    assert scene.log() == ["log", "failed"], "what is wrong with it is in the log"


def test_a_retry_of_a_part_is_tried_again_where_its_checkpoints_are_only_out_of_reach(scene: Scene) -> None:
    scene.earlier.from_s = 10_000
    scene.attempt(kind="experiment", from_stage="Stage_2").run()
    ((how, _),) = scene.store.settled
    assert (how.code, how.retryable) == ("CHECKPOINT_MISSING", True)


@pytest.mark.parametrize("is_canceled", [False, True])
def test_a_pipeline_may_give_its_run_back_unless_somebody_wants_it_ended(
    scene: Scene, is_canceled: bool
) -> None:
    if is_canceled:
        scene.orders(1, cancel=True)
        scene.child.is_deaf = True
    scene.clock.at(15, lambda: scene.child.say(RunPreempted(reason="replication asked for")))
    scene.clock.at(15, lambda: scene.child.end(Exited(0)))
    attempt = scene.attempt()
    attempt.run()
    ((how, _),) = scene.store.settled
    assert (how.outcome, attempt.gave_back) == (("canceled", False) if is_canceled else ("preempted", True))


def test_a_pod_that_goes_away_gives_back_no_run_of_a_pipelines_own_wish(scene: Scene) -> None:
    scene.clock.at(5, scene.stop.set)
    attempt = scene.attempt()
    attempt.run()
    assert scene.store.settled[0][0].outcome == "preempted"
    assert not attempt.gave_back


def test_a_child_is_told_the_name_of_its_pod(scene: Scene) -> None:
    scene.clock.at(1, scene.child.complete)
    attempt = scene.attempt()
    attempt.ports = replace(attempt.ports, pod="alpha")
    attempt.run()
    assert scene.child.order is not None
    assert (scene.child.order.pod, scene.child.order.pods_before) == ("alpha", {})


def test_a_child_is_told_the_pods_that_the_control_plane_knows_of_its_checkpoints(scene: Scene) -> None:
    scene.clock.at(1, scene.child.complete)
    scene.attempt(number=2).run()
    assert scene.child.order is not None
    assert scene.child.order.pods_before == {"Stage_1": ["alpha", ""]}


def test_a_child_is_told_that_a_replication_was_asked_for(scene: Scene) -> None:
    scene.earlier.stages, scene.earlier.replication_asked = (), True
    scene.clock.at(1, scene.child.complete)
    scene.attempt(number=2).run()
    assert scene.child.order is not None
    assert scene.child.order.replication_asked


@pytest.mark.parametrize(("kind", "asked"), [("experiment", 1), ("probe", 0)])
def test_a_first_attempt_asks_what_it_is_told_where_its_kind_tells_something(
    scene: Scene, kind: str, asked: int
) -> None:
    scene.earlier.stages, scene.earlier.told = (), {"verdicts": {"iris test": 6}}
    scene.clock.at(1, scene.child.complete)
    scene.attempt(kind=kind).run()
    assert scene.child.order is not None
    assert (scene.earlier.asked, scene.child.order.told) == (asked, scene.earlier.told if asked else {})


def test_a_first_attempt_does_without_what_it_is_told_after_a_short_outage(scene: Scene) -> None:
    scene.earlier.from_s = 10_000
    scene.clock.at(30, scene.child.complete)
    scene.attempt(kind="experiment").run()
    assert scene.child.order is not None
    assert scene.child.order.told == {}
    assert scene.earlier.asked == 6, "for ten seconds, every two"
    assert scene.store.settled[0][0].outcome == "completed"


def goes_on(scene: Scene, attempt: Attempt, name: str) -> None:
    """Let the child keep a checkpoint."""
    path = attempt.workspace / "1.json"
    path.write_text("{}")
    assert scene.child._listener is not None
    scene.child._listener(Checkpoint(1, name, [Made(str(path), name, "application/json")]))


@pytest.mark.parametrize(
    ("end", "kept"),
    [
        (Signalled(9), None),
        (Signalled(9), "spending"),  # which belongs to no stage
        (Signalled(11), None),
        (Signalled(11), "Stage_3"),
        (Signalled(6), None),
        (Exited(3), None),
    ],
)
def test_a_process_that_dies_behind_checkpoints_has_them_set_aside_and_its_run_given_back(
    scene: Scene, end: Exited | Signalled, kept: str | None
) -> None:
    scene.earlier.stages = ("Stage_1", "Stage_2", "spending")
    attempt = scene.attempt(number=2, kind="experiment")
    if kept is not None:
        scene.clock.at(5, lambda: goes_on(scene, attempt, kept))
    scene.clock.at(9, lambda: scene.child.end(end))
    attempt.run()
    assert scene.store.settled[0][0].outcome == "preempted"
    for name in ("Stage_1", "Stage_2"):
        assert scene.files.checkpoints[name] == emptied(name, RUN_ID, 2)
    assert {*scene.files.checkpoints} - {kept} == {"Stage_1", "Stage_2"}, "what was spent stays spent"
    assert scene.log()[-2:] == ["log", "preempted"], "what it died of is in the log"


@pytest.mark.parametrize("case", ["went on", "set aside before", "nothing found", "no storage", "spoke"])
def test_the_end_of_a_process_stays_its_own(scene: Scene, case: str) -> None:
    scene.earlier.stages = () if case == "nothing found" else ("Stage_1",)
    scene.earlier.emptied = ("Stage_1",) if case == "set aside before" else ()
    scene.files.problem = "storage does not answer" if case == "no storage" else None
    attempt = scene.attempt(number=2, kind="experiment")
    if case == "went on":
        scene.clock.at(5, lambda: goes_on(scene, attempt, "Stage_2"))
    scene.clock.at(9, lambda: scene.child.end(Signalled(9)))
    if case == "spoke":
        scene.clock.at(9, lambda: scene.child.say(RunFailed(code="KILLED", message="so it says")))
    attempt.run()
    assert (scene.store.settled[0][0].outcome, scene.code()) == ("failed", "KILLED")
    assert ("Stage_1" in scene.files.checkpoints) == (case == "no storage")


def test_a_full_memory_is_this_pods_own(scene: Scene) -> None:
    end = Exit(end=Signalled(9), final=None, oom_evidence=True, last_words="")
    scene.clock.at(9, lambda: setattr(scene.child, "_exit", end))
    scene.attempt(number=2, kind="experiment").run()
    assert scene.code() == "OUT_OF_MEMORY"


@pytest.mark.parametrize("place", ["the workspace", "a folder in it"])
def test_what_would_be_written_through_a_link_is_not_set_aside(scene: Scene, place: str) -> None:
    attempt = scene.attempt(number=2, kind="experiment")

    def swap() -> None:
        if place == "the workspace":
            attempt.workspace.rename(attempt.workspace.with_name("moved"))
        link = attempt.workspace if place == "the workspace" else attempt.workspace / "emptied"
        link.symlink_to(scene.folder)

    scene.clock.at(5, swap)
    scene.clock.at(9, lambda: scene.child.end(Signalled(11)))
    attempt.run()
    assert scene.code() == "SEGFAULT"
    assert not [*scene.folder.glob("*.json"), *scene.folder.glob("emptied")]


def test_the_child_gets_the_secrets_of_its_run_once_they_can_be_had(scene: Scene) -> None:
    scene.secrets.found = Values({"API": "marker-of-a-secret"})
    scene.clock.at(10, scene.child.complete)
    attempt = scene.attempt(secrets=("API",))
    attempt.run()
    assert scene.child.order is not None
    assert scene.child.order.secrets == {"API": "marker-of-a-secret"}
    assert (scene.secrets.asked, attempt.secrets) == (3, {})
    assert b"marker-of-a-secret" not in b"".join(row.line for row in scene.outbox.batch(1_000, 1 << 30))


def test_a_run_without_secrets_asks_for_none(scene: Scene) -> None:
    scene.clock.at(1, scene.child.complete)
    scene.attempt().run()
    assert scene.secrets.asked == 0


def test_a_secret_that_was_removed_ends_the_attempt_by_a_code_of_its_own(scene: Scene) -> None:
    scene.secrets.found = Values({"API": "marker-of-a-secret"}, ("GONE",))
    scene.attempt(secrets=("API", "GONE")).run()
    ((how, _),) = scene.store.settled
    assert (how.code, how.retryable) == ("SECRET_MISSING", True)
    assert "GONE" in str(how.message)
    assert "marker" not in str(how.message)


def test_secrets_that_nobody_hands_out_are_waited_for_so_long(scene: Scene) -> None:
    scene.secrets.failures = 1_000
    scene.attempt(secrets=("API",)).run()
    assert scene.code() == "SECRETS_UNREACHABLE"
    assert scene.clock.monotonic_s() == pytest.approx(300, abs=10)


def of_user(number: int, renew_in_s: float | None = 30.0) -> Values:
    return Values({USER_TOKEN: f"token-{number}-of-the-user"}, (), renew_in_s)


def test_the_token_of_a_user_is_renewed_before_its_end_and_none_is_told(scene: Scene) -> None:
    scene.secrets = Held(of_user(1), failures=0)
    attempt = scene.attempt(secrets=(USER_TOKEN,))

    def look() -> None:
        assert attempt.renewal is not None
        with suppress(Transient):
            attempt.renewal.run_once()

    for second in range(1, 100):
        scene.clock.at(second, look)
    scene.clock.at(20, lambda: setattr(scene.secrets, "found", of_user(2)))
    scene.clock.at(40, lambda: setattr(scene.secrets, "failures", 1_000))  # away for a while
    scene.clock.at(80, lambda: setattr(scene.secrets, "failures", 0))
    scene.clock.at(80, lambda: setattr(scene.secrets, "found", of_user(3, 1e9)))
    scene.clock.at(100, scene.child.complete)
    attempt.run()
    assert [each for each, _ in scene.child.renewed] == [of_user(2).values, of_user(3).values]
    assert [second for _, second in scene.child.renewed] == [
        pytest.approx(30, abs=0.3),
        pytest.approx(82.5, abs=3),
    ]
    assert scene.secrets.renewals in range(5, 9), "one that came to nothing is repeated after a pause"
    assert b"of-the-user" not in b"".join(row.line for row in scene.outbox.batch(1_000, 1 << 30))


def test_an_attempt_whose_user_signs_out_says_so_once_and_goes_on(scene: Scene) -> None:
    scene.secrets = Held(of_user(1), failures=0)
    attempt = scene.attempt(secrets=(USER_TOKEN,))

    def look() -> None:
        if attempt.renewal is not None:
            attempt.renewal.run_once()

    for second in range(1, 100):
        scene.clock.at(second, look)
    scene.clock.at(20, lambda: setattr(scene.secrets, "found", Values({}, (USER_TOKEN,))))
    scene.clock.at(90, scene.child.complete)
    attempt.run()
    assert (scene.child.renewed, scene.secrets.renewals) == ([], 1)
    assert scene.log() == ["log", "completed"]


def test_an_order_to_stop_ends_the_wait_for_secrets(scene: Scene) -> None:
    scene.secrets.failures = 1_000
    scene.orders(20, cancel=True)
    scene.attempt(secrets=("API",)).run()
    ((how, _),) = scene.store.settled
    assert how.outcome == "canceled"
    assert scene.clock.monotonic_s() < 100


def test_the_files_that_a_run_names_are_there_until_it_has_ended(scene: Scene) -> None:
    scene.shelf.errors = [Transient("storage_unreachable", "away")]
    held: list[list[str]] = []
    scene.clock.at(20, lambda: scene.child.say(RunStarted()))
    scene.clock.at(30, lambda: held.append([*scene.shelf.held]))
    scene.clock.at(31, scene.child.complete)
    scene.attempt().run()
    assert scene.child.order is not None
    assert scene.child.order.trees == {"a" * 64: "/trees/a"}
    assert held == [[RUN_ID]]
    assert scene.shelf.held == []


@pytest.mark.parametrize(
    ("error", "times", "code"),
    [
        (Rejected("unknown_tree", "there is no such tree"), 1, "FILES_MISSING"),
        (Rejected("CACHE_TOO_SMALL", "this pod keeps fewer"), 1, "CACHE_TOO_SMALL"),
        (Transient("storage_unreachable", "away"), 10_000, "FILES_UNREACHABLE"),
        (Transient("DISK_FULL", "no room"), 10_000, "DISK_FULL"),
    ],
)
def test_a_run_without_its_files_fails_by_name(scene: Scene, error: Exception, times: int, code: str) -> None:
    scene.shelf.errors = [error] * times
    scene.attempt().run()
    assert scene.code() == code


def test_a_cancel_ends_the_wait_for_files(scene: Scene) -> None:
    scene.shelf.errors = [Transient("storage_unreachable", "away")] * 10_000
    scene.orders(20, cancel=True)
    scene.clock.at(25, scene.child.complete)
    scene.attempt().run()
    ((how, _),) = scene.store.settled
    assert how.outcome == "canceled"
