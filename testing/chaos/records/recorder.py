"""Stands between a worker and its ports, and notes what it asked for and what it learnt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from events.delivery.pipe import ContainerTold, Environment, Go, Kept, Ready, Renewed, Start
from events.queue.claims import Claim, Orders
from events.queue.matching import Seeker, WaitingClass
from events.queue.notes import Note
from events.queue.settlement import End
from events.runtime.errors import LeaseLost, Transient
from pod_worker.child.exit_status import NeverStarted
from pod_worker.child.process import Exit, Listener
from pod_worker.queue.port import Queue
from pod_worker.worker import WarmProcess
from testing.chaos.records.journal import Journal, Phase


def shortened(token: str) -> str:
    """Return enough of a token's hash to know it again."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


@dataclass(slots=True)
class Call:
    """A call under way, and what it brought."""

    run: str | None
    attempt: int | None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedQueue:
    """The queue of a worker, every claim, renewal and settlement noted with its outcome."""

    queue: Queue
    journal: Journal
    ttl_s: float

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        with self._noted("claim", token=shortened(token), pod=seeker.pod, ttl_s=self.ttl_s) as call:
            claim = self.queue.claim(seeker, token=token, known=known)
            _learn(call, claim)
            return claim

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        with self._noted("recover", token=shortened(token), ttl_s=self.ttl_s) as call:
            claim = self.queue.recover(collections, token)
            _learn(call, claim)
            return claim

    def renew(self, claim: Claim) -> Orders:
        with self._noted("renew", claim, ttl_s=self.ttl_s) as call:
            orders = self.queue.renew(claim)
            call.data["cancel"] = orders.cancel
            return orders

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        with self._noted("settle", claim, outcome=how.outcome, last=last):
            self.queue.settle(claim, how, last, jitter=jitter, root=root)

    @contextmanager
    def _noted(self, what: str, claim: Claim | None = None, **data: Any) -> Iterator[Call]:
        """Note the call before and after: `fail` where it was refused, `unknown` where nobody knows."""
        run, attempt = (None, None) if claim is None else (claim.run_id, claim.attempt)
        number = self.journal.begin(what, run=run, attempt=attempt, **data)
        call = Call(run, attempt)
        try:
            yield call
        except LeaseLost:
            self.journal.note(what, "fail", call=number, run=run, attempt=attempt)
            raise
        except Transient as error:
            self.journal.note(what, "unknown", call=number, run=run, attempt=attempt, code=error.code)
            raise
        phase: Phase = "fail" if what in ("claim", "recover") and call.run is None else "ok"
        self.journal.note(what, phase, call=number, run=call.run, attempt=call.attempt, **call.data)


def _learn(call: Call, claim: Claim | None) -> None:
    if claim is not None:
        call.run, call.attempt = claim.run_id, claim.attempt


@dataclass(slots=True)
class RecordedChild:
    """The process of a pipeline, its starts, stops and ends noted."""

    child: WarmProcess
    journal: Journal
    order: Start | None = None
    stands_still: bool = False

    @property
    def work(self) -> Path | None:
        return self.child.work

    def wait_ready(self, limit_s: float) -> Ready | NeverStarted:
        return self.child.wait_ready(limit_s)

    def start(self, order: Start, listener: Listener) -> None:
        self.order = order
        self._note("child started")
        if self.stands_still:  # suspended before its order
            self._note("child suspended")
        self.child.start(order, listener)

    def join(self, limit_s: float) -> Exit | None:
        ended = self.child.join(limit_s)
        if ended is not None:
            self._note("child ended")
        return ended

    def answer(self, answer: Kept | Environment | ContainerTold) -> None:
        self.child.answer(answer)

    def tell(self, note: Note) -> None:
        self.child.tell(note)

    def begin(self, go: Go) -> None:
        self.child.begin(go)

    def renew(self, renewed: Renewed) -> None:
        self.child.renew(renewed)

    def terminate(self) -> None:
        self._do("child terminated", self.child.terminate)

    def suspend(self) -> None:
        self._do("child suspended", self.child.suspend)
        self.stands_still = True

    def resume(self) -> None:
        self.stands_still = False
        self._note("child resumed")
        self.child.resume()

    def kill(self) -> None:
        self._do("child killed", self.child.kill)

    def __enter__(self) -> Self:
        self.child.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.child.__exit__(*error)
        self._note("child gone")

    def _do(self, what: str, act: Callable[[], None]) -> None:
        """Act, and note it when it is done: the child runs until then."""
        act()
        self._note(what)

    def _note(self, what: str) -> None:
        if self.order is not None:
            self.journal.note(what, run=self.order.run_id, attempt=self.order.attempt)
