"""What a worker asks the queue for while its warm process still loads pipelines."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from events.claims import Claim
from events.errors import Transient
from events.matching import Seeker, WaitingClass
from events.pipe import Ready
from events.testing import ManualClock, SeededIds, make_outbox
from pod_worker.attempt import Ports
from pod_worker.ending import Exited, NeverStarted
from pod_worker.intent import Intent
from pod_worker.roster import Roster
from pod_worker.worker import Pod, Worker

PROBE = Ready(["probe"], "cpu", is_loading=True)
WHOLE = Ready(["experiment", "probe"], "cpu")
BROKEN = NeverStarted(1.0, Exited(1))


@dataclass
class EmptyQueue:
    """Has no run, and raises `stop` once it was asked so often."""

    stop: threading.Event
    most: int
    asked: list[set[str]] = field(default_factory=list)

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        return None

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        self.asked.append(set(seeker.abilities.kinds))
        if len(self.asked) == self.most:
            self.stop.set()
        return None


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

    def pause(self, classes: Sequence[str], seconds: float, stop: threading.Event) -> Sequence[WaitingClass]:
        self.clock.wait(stop, seconds)
        return ()


def kinds_asked_for(
    folder: Path, *lives: Sequence[Ready | NeverStarted], most: int, refused: int = 0
) -> list[set[str]]:
    """Let a worker have one process after the other, until it has asked for a run `most` times.

    The machine has no room for the first `refused` of them.
    """
    clock, stop = ManualClock(), threading.Event()
    queue = EmptyQueue(stop, most)
    children = iter([LoadingChild(list(says)) for says in lives])
    roster = Roster(*cast(Any, (None, None, None)), identity={})
    with make_outbox(folder, clock=clock) as outbox:
        ports = Ports(
            queue=cast(Any, queue),
            outbox=outbox,
            uploads=cast(Any, None),
            checkpoints=cast(Any, None),
            clock=clock,
            ids=SeededIds(),
            threads=cast(Any, None),
            work=folder,
            stop=stop,
        )
        pod = Pod(id="pod", mode="experiment", region=None, gpu_gib=0.0)
        intent = Intent(folder / "claim.token")
        refusals = iter(range(refused))

        def spawn() -> LoadingChild:
            if next(refusals, None) is not None:
                raise Transient("CHILD_NOT_SPAWNED", "no room for another process")
            return next(children)

        Worker(pod, cast(Any, queue), ports, intent, roster, cast(Any, spawn), Rests(clock)).run()
    return queue.asked


def test_a_kind_that_is_loaded_is_claimed_while_another_is_on_its_way(tmp_path: Path) -> None:
    asked = kinds_asked_for(tmp_path, [PROBE, PROBE, WHOLE], most=4)
    assert asked == [{"probe"}, {"probe"}, {"probe", "experiment"}, {"probe", "experiment"}]


def test_after_a_load_that_broke_its_process_nothing_is_claimed_before_the_load_is_done(
    tmp_path: Path,
) -> None:
    asked = kinds_asked_for(tmp_path, [PROBE, BROKEN], [PROBE, BROKEN], [PROBE, WHOLE], most=2)
    assert asked == [{"probe"}, {"probe", "experiment"}]


def test_a_machine_without_room_for_a_process_is_asked_again(tmp_path: Path) -> None:
    assert kinds_asked_for(tmp_path, [WHOLE], most=1, refused=3) == [{"probe", "experiment"}]
