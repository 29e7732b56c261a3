"""The checks of a pod hold up the kinds that need them, for as long as they fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from events.queue.faults import Check as Subject
from events.queue.settlement import End
from events.testing import ManualClock
from pod_worker.health.check import Check, Finding
from pod_worker.health.health import LATE, Health

MODEL, DISK = "model:api.example.com", "disk"
KINDS = frozenset({"experiment", "probe", "other"})
COMPLETED = End("completed")


@dataclass
class Pod:
    """Checks whose findings the test chooses; threads run when the test says so."""

    found: dict[str, Finding] = field(default_factory=lambda: {MODEL: Finding(True), DISK: Finding(True)})
    looks: list[str] = field(default_factory=list)
    begun: list[Callable[[], object]] = field(default_factory=list)
    clock: ManualClock = field(default_factory=ManualClock)
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        checks = (self._check(MODEL, "model", frozenset({"experiment"})), self._check(DISK, "disk", None))
        self.health = Health(checks, self.clock, lambda _, work: self.begun.append(work))

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything that is due be looked at."""
        self.clock.advance(seconds)
        self.health.run_once()
        while self.begun:
            self.begun.pop()()

    def fit(self) -> list[str]:
        return sorted(self.health.fit(KINDS))

    def _check(self, name: str, subject: Subject, kinds: frozenset[str] | None) -> Check:
        def look() -> Finding:
            self.looks.append(name)
            return self.found[name]

        return Check(name=name, subject=subject, kinds=kinds, look=look)


def test_a_kind_waits_only_for_the_checks_that_it_needs() -> None:
    pod = Pod()
    assert (pod.fit(), pod.health.is_awaited(KINDS)) == ([], True)
    pod.health.run_once()
    disk = pod.begun.pop()
    assert len(pod.begun) == 1
    disk()
    assert pod.fit() == ["other", "probe"]
    assert (pod.health.is_awaited(["probe"]), pod.health.is_awaited(["experiment"])) == (False, True)
    pod.begun.pop()()
    assert pod.fit() == sorted(KINDS)


def test_a_failing_check_keeps_its_kinds_from_being_claimed_and_says_so_at_once() -> None:
    pod = Pod()
    pod.found[MODEL] = Finding(False, "MODEL_UNAUTHORISED", "the key\nis refused \0")
    pod.turn()
    assert pod.fit() == ["other", "probe"]
    assert pod.health.changed.is_set()
    model = next(each for each in pod.health.report() if each.name == MODEL)
    assert (model.ok, model.code, model.kinds) == (False, "MODEL_UNAUTHORISED", ("experiment",))
    assert model.message == "the key is refused \ufffd"
    pod.turn(1.0)
    assert pod.looks.count(MODEL) == 1, "it waits two seconds"
    pod.found[MODEL] = Finding(True)
    pod.turn(1.0)
    assert pod.fit() == sorted(KINDS)


def test_an_attempt_that_ended_by_a_subject_holds_up_what_needs_it_until_a_look_passes() -> None:
    pod = Pod()
    pod.turn()
    pod.health.hear_end(End("failed", "VALUE_ERROR", "its own fault"), "experiment")
    assert pod.fit() == sorted(KINDS)
    pod.health.hear_end(End("failed", "MODEL_UNREACHABLE", "it answers 500"), "other")
    assert pod.fit() == ["probe"], "a kind that nobody declared needs it too, as has been seen"
    pod.found[MODEL] = Finding(False, "MODEL_UNREACHABLE", "it answers 500")
    pod.turn(2.0)
    assert pod.fit() == ["probe"]
    pod.found[MODEL] = Finding(True)
    pod.turn(60.0)
    assert pod.fit() == sorted(KINDS)


def test_a_look_that_began_before_an_attempt_failed_does_not_let_the_pod_go_on() -> None:
    pod = Pod()
    pod.turn()
    pod.health.suspect([MODEL])
    pod.health.run_once()
    (look,) = pod.begun
    pod.begun.clear()
    pod.health.hear_failure("MODEL_UNREACHABLE", "it answers 500", "experiment")
    look()
    assert "experiment" not in pod.fit()
    pod.turn(2.0)
    assert "experiment" in pod.fit()


def test_what_other_pods_suspect_is_looked_at_before_the_next_claim() -> None:
    pod = Pod()
    pod.turn()
    pod.health.suspect([MODEL, "model:elsewhere.example.com"])
    assert pod.fit() == ["other", "probe"]
    assert pod.health.is_awaited(["experiment"])
    pod.turn()
    assert pod.fit() == sorted(KINDS)
    assert pod.looks.count(MODEL) == 2


def test_a_look_that_does_not_end_has_failed_and_no_other_is_begun_beside_it() -> None:
    pod = Pod()
    pod.health.run_once()
    stuck = pod.begun.pop(0)
    pod.begun.pop()()
    for _ in range(20):
        pod.turn(46.0)
    late = next(each for each in pod.health.report() if each.name == MODEL)
    assert (late.ok, late.code, pod.looks.count(MODEL)) == (False, LATE, 0)
    assert pod.clock.now() - late.at == timedelta(seconds=19 * 46), "it is late once"
    stuck()
    assert pod.fit() == sorted(KINDS), "what it finds in the end counts"


def test_a_look_that_raises_has_failed() -> None:
    def raises() -> Finding:
        raise OSError("libcuda.so.1: cannot open shared object file")

    check = Check(name="gpu", subject="gpu", kinds=frozenset({"experiment"}), look=raises)
    health = Health((check,), ManualClock(), lambda _, work: work())
    health.run_once()
    (found,) = health.report()
    assert (found.ok, found.code) == (False, "CHECK_FAILED")
    assert "libcuda" in found.message
    assert (health.has_gpu(), Pod().health.has_gpu()) == (False, True)


def test_a_loop_that_is_told_to_be_quiet_ends() -> None:
    quiet = threading.Event()
    pod = Pod()
    pod.begun.append(quiet.set)
    pod.health.threads = lambda _, work: (work(), quiet.set())
    pod.health.run(quiet)
    assert pod.fit() == sorted(KINDS)
