"""What really happened, written down by those who did it: the truth that the store is held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from events.delivery.event_encoder import fact_frame
from events.delivery.outbox import Attempt, Intention, Outbox
from events.delivery.pipe import FactFrame
from events.kinds.declaring.fact import Fact
from events.queue.settlement import End
from events.text.attempt_id import AttemptId


class Owner(Protocol):
    """Somebody who works for an attempt."""

    @property
    def run_id(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    @property
    def pod(self) -> str: ...

    def is_live(self) -> bool:
        """Say whether its child runs and it trusts its lease, at this very moment."""
        ...

    def is_over(self) -> bool: ...


class Truth(NamedTuple):
    """The store's moment when something was said, and by how much who said it may be wrong about it."""

    moment: datetime
    allowed_s: float


@dataclass(slots=True)
class Ledger:
    """The truth of one history."""

    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    sent: dict[AttemptId, dict[int, FactFrame]] = field(default_factory=dict)
    said_at: dict[tuple[AttemptId, int], Truth] = field(default_factory=dict)
    cut_short: set[AttemptId] = field(default_factory=set)  # their log's end was lost with a disk
    failed: set[AttemptId] = field(default_factory=set)  # their child failed by itself
    starts: dict[AttemptId, Truth] = field(default_factory=dict)  # of lanes, when they passed the barrier
    submitted: list[str] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)  # acknowledged to their user
    canceled: set[str] = field(default_factory=set)  # acknowledged to the user
    away: set[str] = field(default_factory=set)  # acknowledged: no pod may take these
    owners: dict[str, list[Owner]] = field(default_factory=dict)
    doubts: dict[str, set[str]] = field(default_factory=dict)  # tokens by disk
    cordons: dict[str, int] = field(default_factory=dict)  # acknowledged and not lifted, each with its number
    is_calm: bool = False  # for a while nothing went wrong but what pods do by themselves
    pods: int = 0
    quarantined: dict[str, datetime] = field(default_factory=dict)  # pods by name, and since when
    tokens: dict[AttemptId, str] = field(default_factory=dict)  # with which attempts were claimed
    unclaimed: set[tuple[str, str, int]] = field(
        default_factory=set
    )  # id, run, attempt: a stranger's, acknowledged

    def blame(self, what: str) -> None:
        """Write a violation down."""
        if what not in self.violations:
            self.violations.append(what)

    def tell(self, name: AttemptId, last: int, facts: Sequence[Fact | FactFrame], truth: Truth) -> None:
        """Note which sequences an outbox gave, and when."""
        sent = self.sent.setdefault(name, {})
        for sequence, fact in enumerate(facts, last - len(facts) + 1):
            sent[sequence] = fact_frame(fact)
            self.said_at[name, sequence] = truth
        self.counts["events"] += len(facts)

    def start(self, name: AttemptId, truth: Truth) -> None:
        """Note that a lane of a race has started."""
        self.starts[name] = truth
        self.counts["lanes started"] += 1

    def own(self, owner: Owner) -> None:
        """Note that somebody begins to work for a run."""
        others = [each for each in self.owners.get(owner.run_id, ()) if not each.is_over()]
        self.owners[owner.run_id] = [*others, owner]
        self.look()

    def look(self) -> None:
        """Look for a run with two live owners."""
        for run_id, owners in self.owners.items():
            if len(owners) > 1:
                live = [each for each in owners if each.is_live()]
                if len(live) > 1:
                    names = ", ".join(f"{each.pod} (attempt {each.attempt})" for each in live)
                    self.blame(f"run {run_id} has two live owners: {names}")

    def live(self, name: AttemptId) -> Owner | None:
        """Return the live owner of an attempt, if it has one."""
        owners = self.owners.get(name.run_id, ())
        return next((each for each in owners if each.attempt == name.attempt and each.is_live()), None)


class WitnessedOutbox(Outbox):
    """The real outbox, which also tells the ledger what it took."""

    ledger: Ledger
    disk: str
    truth: Callable[[], Truth]

    def open_attempt(self, attempt_id: AttemptId, **held: Any) -> Attempt:
        """Begin an attempt; its claim is in doubt no more."""
        opened = super().open_attempt(attempt_id, **held)
        self.ledger.doubts.setdefault(self.disk, set()).discard(held["token"])
        self.ledger.tokens[attempt_id] = held["token"]
        return opened

    def append(self, attempt_id: AttemptId, facts: Sequence[Fact | FactFrame]) -> int:
        """Keep facts."""
        last = super().append(attempt_id, facts)
        self.ledger.tell(attempt_id, last, facts, self.truth())
        return last

    def append_end(self, attempt_id: AttemptId, fact: Fact | FactFrame, how: End) -> Intention:
        """Keep the end."""
        intention = super().append_end(attempt_id, fact, how)
        self.ledger.tell(attempt_id, intention.attempt.last, [fact], self.truth())
        return intention


def undelivered(outbox: Outbox) -> set[AttemptId]:
    """Return the attempts of which an outbox still holds events."""
    found: set[AttemptId] = set()
    while rows := outbox.batch(1, 1, found):
        found.add(rows[0].attempt_id)
    return found
