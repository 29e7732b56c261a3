"""What the campaign's user does: submits runs of every kind, changes some that wait, and cancels in storms.

Law: a submission whose answer was lost is sent again under the same idempotency key; what was
acknowledged is noted, and has to be found.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import httpx
import pymongo
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from events.runtime.clock import Clock
from testing.chaos.proxies.door import Door
from testing.chaos.records.journal import Journal, Phase

TURN_S: Final = 0.25
COUNT_MS: Final = 1_000
STORM_MAX: Final = 12
RECENT: Final = 60
STORM_THREADS: Final = 4
CHANGE_EVERY_S: Final = 2.0
RACKS: Final = ("r0", "r1")
WAITING: Final = ("QUEUED", "DELAYED")
PART_ROWS: Final = 0.2  # of the probes record rows
PART_BOUND: Final = 0.3  # ask for a pod or for a rack
ROWS: Final = (1, 10, 60)

ENDS: Final = {
    "completed": 60, "retryable": 8, "exception": 5, "kill": 5, "exit": 4, "segfault": 2,
    "out_of_memory": 2, "hang": 3, "deaf": 3,
}  # fmt: skip

KILLED: Final = ("kill", "out_of_memory")  # ends by which the pod itself is doubted
SHARING_PODS: Final = 3  # of fewer pods each soon leaves such a run to others, which are none


@dataclass(frozen=True, slots=True)
class Wish:
    """One run that somebody wants."""

    kind: str
    spec: dict[str, Any]
    requires: dict[str, Any] = field(default_factory=dict)


def wish(chance: Random, whims: Random, *, events: int, longest_s: float, pods: int) -> Wish:
    """Draw a probe: mostly short, sometimes long, ending in every way there is; about `events` said.

    Some record rows, some ask for a pod or a rack: by `whims`, so that the others stay what they were.
    """
    end = chance.choices(list(ENDS), weights=list(ENDS.values()))[0]
    seconds = min(longest_s, chance.choice([0.1, 0.3, 0.6, 1.0, 1.5, 4.0]))
    spec: dict[str, Any] = {
        "seconds": seconds,
        "events": chance.randrange(max(1, events // 4), events * 2),
        "artifact_bytes": chance.choice([0, 1, 1_000, 20_000, 300_000]),
        "end": end,
        "time_limit_s": 30.0,
    }
    if end in ("hang", "deaf"):
        spec["time_limit_s"] = seconds + chance.uniform(0.5, longest_s + 0.5)
    if whims.random() < PART_ROWS:
        spec["results"] = whims.choice(ROWS)
    requires = required(whims, pods) if whims.random() < PART_BOUND else {}
    spec["end"] = ended(end, is_shared=not requires and pods >= SHARING_PODS)
    return Wish("probe", spec, requires)


def ended(end: str, *, is_shared: bool) -> str:
    """Return how a run ends: where few pods share what others failed, none kills its process."""
    return "exception" if end in KILLED and not is_shared else end


def required(whims: Random, pods: int) -> dict[str, Any]:
    """Draw what a run asks for: one pod of the campaign, or one rack."""
    if whims.random() < 0.5:
        return {"pod": f"pod-{whims.randrange(pods)}"}
    return {"labels": {"rack": whims.choice(RACKS[:pods])}}


def experiment(number: int) -> Wish:
    """Return a short experiment."""
    nodes = {f"Stage_{stage}": 1 for stage in (1, 2, 3, 4)}
    idea = "Label smoothing of 0.1 improves the test accuracy on digits."
    return Wish(
        "experiment", {"idea": idea, "preset": "quick", "nodes": nodes, "seed": number, "review": "none"}
    )


@dataclass(slots=True)
class User:
    """Keeps a queue waiting, through the one address of the control planes."""

    door: Door
    database_url: str
    journal: Journal
    clock: Clock
    chance: Random
    whims: Random
    pods: int
    backlog: int
    events: int
    experiments: int
    longest_run_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT))
    submitted: int = 0
    changed: int = 0
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(STORM_THREADS))
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Submit in a thread until `end`."""
        self._thread = threading.Thread(target=self._run, name="user", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Submit nothing new, wait until every request under way is over, and let pods take what waits."""
        self.stop.set()
        if self._thread is not None:
            self._thread.join()
        self._pool.shutdown(wait=True)
        self._unbind()
        self._release()

    def storm(self, draw: float) -> int:
        """Cancel some of the latest runs, all at once; return how many."""
        wanted = list(self.recent)
        chance = Random(draw)
        victims = chance.sample(wanted, min(len(wanted), chance.randrange(3, STORM_MAX)))
        for run_id in victims:
            self._pool.submit(self._cancel, run_id)
        return len(victims)

    def _run(self) -> None:
        with MongoClient[dict[str, Any]](self.database_url, serverSelectionTimeoutMS=COUNT_MS) as mongo:
            runs = mongo.get_default_database().runs
            changing, change_at_s = None, 0.0
            while not self.clock.wait(self.stop, TURN_S):
                is_free = changing is None or changing.done()  # one at a time: storms share these threads
                if self.recent and is_free and self.clock.monotonic_s() >= change_at_s:
                    change_at_s = self.clock.monotonic_s() + CHANGE_EVERY_S
                    changing = self._pool.submit(self._change, self._wanted_change(), self.recent[-1])
                try:
                    with pymongo.timeout(COUNT_MS / 1000):
                        waiting = runs.count_documents({"status": "QUEUED"})
                except PyMongoError:
                    continue  # a fail-over: what is queued keeps the workers busy for now
                for _ in range(self.backlog - waiting):
                    if self.stop.is_set():
                        return
                    self._submit(self._next())

    def _next(self) -> Wish:
        if self.experiments > 0:
            self.experiments -= 1
            return experiment(self.experiments)
        return wish(self.chance, self.whims, events=self.events, longest_s=self.longest_run_s, pods=self.pods)

    def _submit(self, wanted: Wish) -> None:
        self.submitted += 1
        key = f"{self.journal.actor}-{self.submitted}"
        call = self.journal.begin("submit", key=key)
        body = {"kind": wanted.kind, "spec": wanted.spec, "requires": wanted.requires}
        answer = self.door.insist("POST", "/api/runs", body, {"Idempotency-Key": key})
        if answer is None or not answer.is_success:
            self.journal.note("submit", "unknown", call=call, key=key)
            return
        run_id = str(answer.json()["id"])
        self.recent.append(run_id)
        self.journal.note("submit", "ok", call=call, run=run_id, key=key)

    def _cancel(self, run_id: str) -> None:
        call = self.journal.begin("cancel", run=run_id)
        answer = self.door.ask("POST", f"/api/runs/{run_id}/cancel", {})
        if answer is not None and answer.status_code == httpx.codes.OK:
            self.journal.note("cancel", "ok", call=call, run=run_id, status=answer.json()["status"])
        elif answer is not None and answer.status_code == httpx.codes.CONFLICT:
            self.journal.note("cancel", "fail", call=call, run=run_id)
        else:
            self.journal.note("cancel", "unknown", call=call, run=run_id)

    def _wanted_change(self) -> dict[str, Any]:
        self.changed += 1
        body: dict[str, Any] = {
            "labels": {f"change-{self.changed}": "made"},
            "priority": self.whims.randint(-1, 1),
        }
        if self.whims.random() < 0.5:
            body["requires"] = required(self.whims, self.pods)
        return body

    def _change(self, body: dict[str, Any], run_id: str) -> None:
        """Change a run that waits, once, as it was looked at: a second try could not tell its own doing."""
        seen = self.door.ask("GET", f"/api/runs/{run_id}")
        if seen is None or not seen.is_success or seen.json()["status"] not in WAITING:
            return
        (label,) = body["labels"]
        call = self.journal.begin("change", run=run_id, label=label)
        match_ = {"If-Match": f'"{seen.json()["revision"]}"'}
        answer = self.door.ask("PATCH", f"/api/runs/{run_id}", body, match_)
        phase: Phase = "unknown"
        if answer is not None and answer.is_success:
            phase = "ok"
        elif answer is not None and answer.status_code in (409, 412):
            phase = "fail"
        self.journal.note("change", phase, call=call, run=run_id, label=label)

    def _unbind(self) -> None:
        """Let every pod take what waits: a pod that has failed a run leaves it to others for minutes."""
        with MongoClient[dict[str, Any]](self.database_url) as mongo:
            bound = {"status": {"$in": WAITING}, "classKey": {"$regex": "^~"}}
            waiting = [each["_id"] for each in mongo.get_default_database().runs.find(bound, {"_id": 1})]
        for run_id in waiting:
            self.door.insist("PATCH", f"/api/runs/{run_id}", {"requires": {}})

    def _release(self) -> None:
        """Let the pods go that the faults have put in quarantine, as a person does who knows the reason."""
        for number in range(self.pods):
            self.door.insist("POST", f"/api/pods/pod-{number}/release")
