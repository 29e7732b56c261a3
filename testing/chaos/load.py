"""What the campaign's user does: submits runs of every kind, and cancels in storms.

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
from testing.chaos.records.journal import Journal

TURN_S: Final = 0.25
TRIES_MAX: Final = 40
TRY_AGAIN_S: Final = 0.5
ANSWER_S: Final = 8.0
COUNT_MS: Final = 1_000
STORM_MAX: Final = 12
RECENT: Final = 60
STORM_THREADS: Final = 4

ENDS: Final = {
    "completed": 60, "retryable": 8, "exception": 5, "kill": 5, "exit": 4, "segfault": 2,
    "out_of_memory": 2, "hang": 3, "deaf": 3,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wish:
    """One run that somebody wants."""

    kind: str
    spec: dict[str, Any]


def wish(chance: Random, *, events: int, longest_s: float) -> Wish:
    """Draw a probe: mostly short, sometimes long, ending in every way there is; about `events` said."""
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
    return Wish("probe", spec)


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

    client: httpx.Client
    database_url: str
    journal: Journal
    clock: Clock
    chance: Random
    backlog: int
    events: int
    experiments: int
    longest_run_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT))
    submitted: int = 0
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(STORM_THREADS))
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Submit in a thread until `end`."""
        self._thread = threading.Thread(target=self._run, name="user", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Submit nothing new, and wait until every submission and every cancel under way is over."""
        self.stop.set()
        if self._thread is not None:
            self._thread.join()
        self._pool.shutdown(wait=True)

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
            while not self.clock.wait(self.stop, TURN_S):
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
        return wish(self.chance, events=self.events, longest_s=self.longest_run_s)

    def _submit(self, wanted: Wish) -> None:
        self.submitted += 1
        key = f"{self.journal.actor}-{self.submitted}"
        call = self.journal.begin("submit", key=key)
        body = {"kind": wanted.kind, "spec": wanted.spec}
        for _ in range(TRIES_MAX):
            answer = self._post("/api/runs", body, {"Idempotency-Key": key})
            if answer is not None and answer.status_code in (200, 201):
                run_id = str(answer.json()["id"])
                self.recent.append(run_id)
                self.journal.note("submit", "ok", call=call, run=run_id, key=key)
                return
            self.clock.wait(threading.Event(), TRY_AGAIN_S)
        self.journal.note("submit", "unknown", call=call, key=key)

    def _cancel(self, run_id: str) -> None:
        call = self.journal.begin("cancel", run=run_id)
        answer = self._post(f"/api/runs/{run_id}/cancel", {}, {})
        if answer is not None and answer.status_code == httpx.codes.OK:
            self.journal.note("cancel", "ok", call=call, run=run_id, status=answer.json()["status"])
        elif answer is not None and answer.status_code == httpx.codes.CONFLICT:
            self.journal.note("cancel", "fail", call=call, run=run_id)
        else:
            self.journal.note("cancel", "unknown", call=call, run=run_id)

    def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response | None:
        """Return the answer; None where none came whole."""
        try:
            answer = self.client.post(path, json=body, headers=headers, timeout=ANSWER_S)
            if answer.is_success:
                answer.json()
        except (httpx.HTTPError, ValueError):
            return None
        return answer
