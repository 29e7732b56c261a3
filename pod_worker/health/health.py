"""Makes the checks of a pod, beside its claims, and says which kinds it may claim by them.

Law: a look holds up nothing but the kinds that need what it looks at, and is over in time: one that is late
has failed. Each runs in a thread of its own; none is begun while the one before it still runs.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from events.queue.faults import blame_of
from events.queue.settlement import End
from events.runtime.clock import Clock
from events.runtime.loops import Threads
from pod_worker.health import breaker
from pod_worker.health.breaker import Breaker
from pod_worker.health.check import Check, Finding, Reported, in_a_line

log = logging.getLogger(__name__)

LATE_LOOK_S: Final = 0.5  # between two glances at a look that may be late
REST_MAX_S: Final = 5.0
LATE: Final = "CHECK_TIMED_OUT"
CHECKS_MAX: Final = 16


@dataclass(slots=True)
class Health:
    """The checks of one pod."""

    checks: tuple[Check, ...]
    clock: Clock
    threads: Threads
    changed: threading.Event = field(default_factory=threading.Event)  # a check fails, or no longer does
    _states: dict[str, Breaker] = field(init=False)
    _kinds: dict[str, frozenset[str] | None] = field(init=False)
    _begun_s: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _hurry: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        assert len(self.checks) <= CHECKS_MAX
        now = self.clock.now()
        known = breaker.known_to_pass("as the worker began", now)
        self._states = {each.name: known if each.is_known else Breaker() for each in self.checks}
        self._kinds = {each.name: each.kinds for each in self.checks}

    def run(self, quiet: threading.Event) -> None:
        """Make each check when it is due, until `quiet`."""
        while not quiet.is_set():
            self.run_once()
            if self.clock.wait(self._hurry, self._rest_s()):
                self._hurry.clear()

    def run_once(self) -> None:
        """Begin what is due; a look that is late has failed."""
        now_s = self.clock.monotonic_s()
        for check in self.checks:
            with self._lock:
                begun_s, state = self._begun_s.get(check.name), self._states[check.name]
                is_due = begun_s is None and state.due_s is not None and state.due_s <= now_s
                is_late = begun_s is not None and now_s - begun_s > check.limit_s
                if is_due or is_late:
                    self._begun_s[check.name] = now_s if is_due else math.inf  # it is late once
            if is_due:
                self.threads(f"check-{check.name}", partial(self._look, check, state.strikes))
            elif is_late:
                self._note(check, Finding(False, LATE, f"no answer within {check.limit_s:.0f} s"))

    def fit(self, kinds: Iterable[str]) -> frozenset[str]:
        """Return which of these kinds may be claimed now."""
        with self._lock:
            return frozenset(kind for kind in kinds if all(map(self._passes, self._needed(kind))))

    def has_gpu(self) -> bool:
        """Say whether what needs a GPU may be claimed, if there is one."""
        with self._lock:
            return all(self._passes(each.name) for each in self.checks if each.subject == "gpu")

    def is_awaited(self, kinds: Collection[str]) -> bool:
        """Say whether one of these kinds waits for a look."""
        with self._lock:
            return any(self._states[name].is_awaited for kind in kinds for name in self._needed(kind))

    def hear_end(self, end: End, kind: str) -> None:
        """Take an attempt's end as evidence: the check that its code names has failed with it."""
        if end.outcome == "completed":
            with self._lock:
                for name in self._needed(kind):
                    self._states[name] = breaker.succeeded(self._states[name])
        elif end.code is not None:
            self.hear_failure(end.code, end.message or "", kind)

    def hear_failure(self, code: str, message: str, kind: str | None = None) -> None:
        """Take a failure as evidence; `kind` needs what failed, even if nobody declared that."""
        subject = blame_of(code).check
        for check in self.checks:
            if subject is None or check.subject != subject:
                continue
            log.warning("check.failed", extra={"check": check.name, "code": code, "why": message})
            with self._lock:
                self._states[check.name] = breaker.failed(
                    self._states[check.name],
                    code,
                    in_a_line(message),
                    now=self.clock.now(),
                    now_s=self.clock.monotonic_s(),
                )
                kinds = self._kinds[check.name]
                if kinds is not None and kind is not None:
                    self._kinds[check.name] = kinds | {kind}
            self._hurry.set()
            self.changed.set()

    def suspect(self, names: Collection[str]) -> None:
        """Look at what other pods report as failing, before the next claim."""
        now_s = self.clock.monotonic_s()
        with self._lock:
            for name in self._states.keys() & names:
                self._states[name] = breaker.suspected(self._states[name], now_s=now_s)
        self._hurry.set()

    def report(self) -> tuple[Reported, ...]:
        """Return the checks that were made."""
        with self._lock:
            return tuple(
                Reported(name, state.ok, state.code, state.message, state.at, _sorted(self._kinds[name]))
                for name, state in self._states.items()
                if state.ok is not None and state.at is not None
            )

    def _rest_s(self) -> float:
        with self._lock:
            if self._begun_s:
                return LATE_LOOK_S
            due = [state.due_s for state in self._states.values() if state.due_s is not None]
        return min(REST_MAX_S, max(0.0, min(due, default=math.inf) - self.clock.monotonic_s()))

    def _look(self, check: Check, strikes: int) -> None:
        try:
            found = check.look()
        except Exception as error:  # noqa: BLE001 - a driver may raise anything: that is what was to be found
            found = Finding(False, "CHECK_FAILED", f"{type(error).__name__}: {error}")
        with self._lock:
            del self._begun_s[check.name]
            is_old = self._states[check.name].strikes > strikes  # an attempt has failed by it since
        if not (found.ok and is_old):
            self._note(check, found)
        self._hurry.set()

    def _note(self, check: Check, found: Finding) -> None:
        now, now_s = self.clock.now(), self.clock.monotonic_s()
        found = Finding(found.ok, found.code, in_a_line(found.message))
        with self._lock:
            before = self._states[check.name]
            after = breaker.looked(before, found, now=now, now_s=now_s, again_s=check.again_s)
            self._states[check.name] = after
        if after.ok is not before.ok and not (after.ok and before.ok is None):
            level = logging.INFO if after.ok else logging.WARNING
            words = "check.passed" if after.ok else "check.failed"
            log.log(level, words, extra={"check": check.name, "code": found.code, "why": found.message})
            self.changed.set()

    def _needed(self, kind: str) -> list[str]:
        return [name for name, kinds in self._kinds.items() if kinds is None or kind in kinds]

    def _passes(self, name: str) -> bool:
        return self._states[name].passes


def _sorted(kinds: frozenset[str] | None) -> tuple[str, ...] | None:
    return None if kinds is None else tuple(sorted(kinds))
