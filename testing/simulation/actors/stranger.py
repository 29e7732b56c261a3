"""A stranger: somebody with credentials that are not the attempt's, who sends lines for it all the same.

He knows what a reader of the fleet knows: every run, every line that is stored, with its id. What is legal
for his key he leaves alone: an admin decides only where the lifecycle has no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from control_plane.access.key_ring import Unauthorized
from control_plane.log.ingest import AHEAD_MAX, Answer
from control_plane.log.ingest import Sender as Principal
from control_plane.store.log.events import CONTROL_PLANE_SOURCE
from events.catalog import (
    ArtifactRegistered,
    EventRefused,
    RunCanceled,
    RunCompleted,
    RunFailed,
    RunHeartbeat,
    RunLog,
    RunPreempted,
    RunStarted,
    StageStarted,
    ValidationAutoStarted,
)
from events.codec import SEQUENCE_MAX, Decoded, decode_ndjson
from events.envelope import Event, Head, storage_id, wire
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCreated
from events.lifecycle import FINAL
from events.runtime.clock import Ids, timestamp
from events.runtime.errors import Transient
from events.testing import EPOCH
from events.text.attempt_id import AttemptId
from events.text.key_text import run_token
from testing.simulation.actors.replicas import EVENT_BYTES_MAX, Balancer, Parts
from testing.simulation.kernel import Kernel, Node
from testing.simulation.ledger import Ledger
from testing.simulation.store.replica_set import Document, ReplicaSet

SOURCE: Final = "//stranger/nowhere"
KEYS: Final = (
    Principal("key without a claim", may_decide=False, key_id="strange-1"),
    Principal("key with admin", may_decide=True, key_id="strange-2"),
    Principal("nobody asked for a key", may_decide=True),
)
SEQUENCES: Final = (1, 1, 2, 2, 3, 5, 8, AHEAD_MAX + 9, SEQUENCE_MAX, 2**53)
LINES_MAX: Final = 8
BURSTS_MAX: Final = 4
PAUSE_S: Final = 6.0
TRIES: Final = 3
LONG: Final = "x" * (EVENT_BYTES_MAX * 3 // 4)  # two of them are more than an attempt may leave
LONG_ODDS: Final = 0.15
KNOWN_ID_ODDS: Final = 0.3


class Target(NamedTuple):
    """An attempt as the stranger sees it, and whether its run has ended."""

    run_id: str
    attempt: int
    is_final: bool

    @property
    def name(self) -> AttemptId:
        return AttemptId(self.run_id, self.attempt)


class Credential(NamedTuple):
    """What the stranger shows: a key, or the text of a run token that is another attempt's."""

    key: Principal | None
    token: str = ""

    @property
    def may_decide(self) -> bool:
        return self.key is not None and self.key.may_decide


@dataclass(slots=True)
class Stranger:
    """One hostile sender."""

    kernel: Kernel
    node: Node
    servers: ReplicaSet
    balancer: Balancer
    ids: Ids
    ledger: Ledger
    nobodys: list[str] = field(default_factory=list)  # ids of runs that do not exist

    def strike(self) -> None:
        """Send some requests, with pauses."""
        self.kernel.spawn("sends", self.node, self._work)

    def _work(self) -> None:
        for _ in range(self.kernel.chance.randint(1, BURSTS_MAX)):
            self._send()
            self.kernel.wait(None, PAUSE_S * self.kernel.chance.random())

    def _send(self) -> None:
        target, credential = self._target(), None
        while credential is None:
            credential = self._credential(target)
        count = self.kernel.chance.randint(1, LINES_MAX)
        lines = decode_ndjson(b"\n".join(self._line(target, credential) for _ in range(count)))
        self.ledger.counts["lines of strangers"] += count
        for _ in range(TRIES):
            try:
                answer = self.balancer.ask(partial(_take, credential, lines))
            except Unauthorized:
                return
            except Transient:
                self.kernel.wait(None, PAUSE_S * self.kernel.chance.random())
            else:
                self._note(lines, answer)
                return

    def _note(self, lines: Sequence[Decoded], answer: Answer) -> None:
        """Keep what was acknowledged of the lines with a number: it has to be somewhere."""
        refused = {each.line for each in answer.rejected}
        self.ledger.counts["lines of strangers refused"] += len(refused)
        for line in lines:
            event = line.outcome
            if isinstance(event, Event) and event.sequence is not None and line.line not in refused:
                identity = storage_id(event.run_id, event.source, event.id)
                self.ledger.unclaimed.add((identity, event.run_id, event.attempt))

    def _target(self) -> Target:
        chance = self.kernel.chance
        runs = [each.document for each in self.servers.collection("runs").majority({})]
        if not runs or chance.random() < 0.15:
            if not self.nobodys or chance.random() < 0.5:
                self.nobodys.append(self.ids.ulid())
            return Target(chance.choice(self.nobodys), chance.randint(1, 2), is_final=True)
        run = chance.choice(runs)
        last = run["attempt"]
        attempt = chance.choice([last, last, last + 1, last + 1, last + 2, max(1, last - 1)])
        return Target(run["_id"], max(1, attempt), run["status"] in FINAL)

    def _credential(self, target: Target) -> Credential | None:
        """Draw one; None where it would be the attempt's own."""
        chance = self.kernel.chance
        if chance.random() < 0.7 or not self.ledger.tokens:
            return Credential(chance.choice(KEYS))
        name = chance.choice(sorted(self.ledger.tokens))
        if name == target.name:
            return None if len(self.ledger.tokens) > 1 else Credential(chance.choice(KEYS))
        owner = name if chance.random() < 0.8 else target.name  # the token of one, under another's name
        return Credential(None, run_token(*owner, self.ledger.tokens[name]))

    def _line(self, target: Target, credential: Credential) -> bytes:
        chance = self.kernel.chance
        sequence = None if chance.random() < 0.3 else self._sequence(target)
        may_end = sequence is not None or not credential.may_decide or target.is_final
        event_id, source = self._identity(target)
        return wire(
            self._fact(target, may_end=may_end),
            Head(
                id=event_id,
                source=source,
                attempt_id=target.name,
                sequence=sequence,
                time=timestamp(EPOCH),
            ),
        )

    def _sequence(self, target: Target) -> int:
        """Return a position: a usual one, or one that is near what its holder says next."""
        sent = self.ledger.sent.get(target.name, {})
        near = max(sent, default=0) + self.kernel.chance.randint(0, 3)
        return self.kernel.chance.choice([*SEQUENCES, max(1, near), max(1, near)])

    def _identity(self, target: Target) -> tuple[str, str]:
        """Return id and source: new ones, those of a line that is stored, or those of a notice to come."""
        chance = self.kernel.chance
        if chance.random() >= KNOWN_ID_ODDS:
            return self.ids.ulid(), SOURCE
        stored: list[Document] = [
            record.document
            for record in self.servers.collection("events").majority({"runId": target.run_id})
            if record.document["runId"] == target.run_id and "sequence" in record.document
        ]
        if not stored or chance.random() < 0.3:
            return f"early-a{target.attempt}", CONTROL_PLANE_SOURCE
        known = chance.choice(stored)
        return known["ceId"], known["source"]

    def _fact(self, target: Target, *, may_end: bool) -> Fact:
        chance = self.kernel.chance
        if chance.random() < LONG_ODDS:
            return RunLog(message=LONG)
        number = chance.randint(1, 1 << 30)
        decides: list[Fact] = [
            RunStarted(),
            RunCompleted(summary="a stranger's"),
            RunFailed(code="STRANGE", message="a stranger's", retryable=bool(number % 2)),
            RunCanceled(reason="a stranger's"),
            RunPreempted(reason="a stranger's"),
            ValidationAutoStarted(),
        ]
        others: list[Fact] = [
            RunLog(message=f"a stranger's {number}"),
            RunHeartbeat(),
            StageStarted(stage=f"stage-{number}", index=1, total=1),
            NodeCreated(node=f"node-{number}", stage="stage-1", plan="a stranger's"),
            ArtifactRegistered(
                name=f"strange-{number}",
                key=f"runs/{target.run_id}/a{target.attempt}/0123456789abcdef/strange-{number}",
                size=3,
                sha256="0" * 64,
            ),
            EventRefused(refused_type="ai.run.log", code="strange", message="a stranger's"),
        ]
        return chance.choice(decides + others if may_end else others)


async def _take(credential: Credential, lines: Sequence[Decoded], parts: Parts) -> Answer:
    principal = credential.key
    if principal is None:
        owner = await parts.run_tokens.read(credential.token)
        principal = Principal(
            f"{owner.run_id}/a{owner.attempt}",
            may_decide=False,
            attempt=AttemptId(owner.run_id, owner.attempt),
        )
    return await parts.ingestor.take(lines, principal)
