"""What the campaign's second user does: makes groups, pauses, cancels and repeats them, retries members.

Law: as of runs, a request whose answer was lost is made again, and what was acknowledged is noted.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import pymongo
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from testing.chaos.load import SHARING_PODS, ended
from testing.chaos.proxies.door import Door
from testing.chaos.records.journal import Journal, Phase

SLOTS_MAX: Final = 5
READ_MS: Final = 1_000
ENDS: Final = ("completed", "completed", "exception", "retryable", "kill", "exit")
CONFLICT: Final = 409


@dataclass(slots=True)
class GroupUser:
    """One group after the other, each with something that befalls it in its middle."""

    door: Door
    database_url: str
    journal: Journal
    chance: Random
    recent: deque[str]
    """The runs that a storm of cancels may strike: members, too."""
    pods: int
    pause_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    made: int = 0
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Play in a thread until `end`."""
        self._thread = threading.Thread(target=self._run, name="group user", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Make nothing new, and leave no group at rest."""
        self.stop.set()
        if self._thread is not None:
            self._thread.join()
        for number in range(1, self.made + 1):
            self._act(f"group-{number}", "resume")

    def _run(self) -> None:
        with MongoClient[dict[str, Any]](self.database_url, serverSelectionTimeoutMS=READ_MS) as mongo:
            runs = mongo.get_default_database().runs
            while not self._rests(0.5 + self.chance.random()):
                self.made += 1
                self._play(f"group-{self.made}", runs)

    def _rests(self, part: float) -> bool:
        """Let some time pass; True where it is the end."""
        return self.door.clock.wait(self.stop, part * self.pause_s)

    def _play(self, name: str, runs: Any) -> None:
        """Make a group, and do with it what the seed says."""
        body = {"id": name, **wanted(self.chance, self.pods)}
        befalls = self.chance.choice(["nothing", "pause", "pause", "cancel", "pause and cancel"])
        is_repeated, is_retried = self.chance.random() < 0.3, self.chance.random() < 0.5
        call = self.journal.begin("group", group=name)
        answer = self.door.insist("POST", "/api/groups", body, {"Idempotency-Key": name})
        if answer is None or not answer.is_success:
            self.journal.note("group", "unknown", call=call, group=name)
            return
        self.journal.note("group", "ok", call=call, group=name)
        self._rests(0.4 * self.chance.random())
        self.recent.extend(self._members(name, runs))
        if "pause" in befalls and self._act(name, "pause"):
            self._rests(0.4 * self.chance.random())
        if "cancel" in befalls:
            self._act(name, "cancel")
        else:
            self._act(name, "resume")
        self._rests(0.5)
        ended = self._members(name, runs, {"status": {"$in": ["COMPLETED", "FAILED", "CANCELED"]}})
        if ended and is_retried:
            run_id = self.chance.choice(ended)
            call = self.journal.begin("retry", run=run_id, group=name)
            answer = self.door.insist("POST", f"/api/runs/{run_id}/retry", {})
            is_made = answer is not None and answer.is_success
            self.journal.note("retry", "ok" if is_made else "unknown", call=call, run=run_id, group=name)
        if is_repeated:
            self._act(name, "again")

    def _act(self, name: str, action: str) -> bool:
        """Ask for an action until it is acknowledged or refused; return whether it was acknowledged."""
        call = self.journal.begin(f"{action} group", group=name)
        answer = self.door.insist("POST", f"/api/groups/{name}/{action}", {} if action == "pause" else None)
        is_done = answer is not None and answer.is_success
        phase: Phase = "ok" if is_done else "unknown"
        if answer is not None and answer.status_code == CONFLICT:
            phase = "fail"
        self.journal.note(f"{action} group", phase, call=call, group=name)
        return is_done

    @staticmethod
    def _members(name: str, runs: Any, more: dict[str, Any] | None = None) -> list[str]:
        """Return the members of a group; none while the store does not answer."""
        try:
            with pymongo.timeout(READ_MS / 1000):
                return [each["_id"] for each in runs.find({"groupId": name, **(more or {})}, {"_id": 1})]
        except PyMongoError:
            return []


def wanted(chance: Random, pods: int) -> dict[str, Any]:
    """Draw a group: a matrix whose members fail in some ways, or a study that draws at random."""
    spec = {"seconds": chance.choice([0.1, 0.5, 1.0]), "events": 20, "time_limit_s": 30.0}
    run: dict[str, Any] = {"kind": "probe", "spec": spec, "max_attempts": chance.randint(1, 3)}
    if is_bound := chance.random() < 0.3:
        run["requires"] = {"labels": {"rack": chance.choice(["r0", "r1"])}}
    is_shared = not is_bound and pods >= SHARING_PODS
    slots = chance.randint(1, SLOTS_MAX)
    common = {"parallel": chance.randint(1, 3)}
    if (failures := chance.choice([None, None, 1, 2])) is not None:
        common["stop_after_failures"] = failures
    if chance.random() < 0.5:
        ends = [ended(chance.choice(ENDS), is_shared=is_shared) for _ in range(slots)]
        rows = [{"end": end, "results": 5 * number} for number, end in enumerate(ends)]
        return {"run": run, "plan": {"kind": "matrix", "rows": rows, **common}}
    space = {name: {"type": "uniform", "low": -3.0, "high": 3.0} for name in ("x", "y")}
    study = {"sampler": "random", "goal": "min:value", "space": space, "max_runs": slots, "seed": slots}
    return {"run": run, "plan": {"kind": "study", **study, **common}}
