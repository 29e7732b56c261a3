"""The group service: create, edit, pause, resume, cancel, again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from control_plane.access.secrets.naming import require_names
from control_plane.model.groups.matrix import Matrix
from control_plane.model.groups.members import Members
from control_plane.model.groups.parameters import Values, in_json
from control_plane.model.groups.plan import Plan, plan_of, require_budget
from control_plane.model.groups.races.race import Race
from control_plane.model.groups.status import CLOSED, Action, GroupStatus, usual
from control_plane.model.groups.study import Study, require_measured
from control_plane.model.groups.ticks import Begun, Tick, round_of
from control_plane.model.views.readable import reading_of
from control_plane.reads.node_waits import require_room
from control_plane.runs.groups.members import submission
from control_plane.runs.groups.proposer import require_sampler
from control_plane.runs.submission import Submitter, check
from control_plane.store.database import Document
from control_plane.store.pods import Pods
from control_plane.store.queue.groups import Entry, Groups
from events.kinds import RUN_KINDS, kind_of
from events.queue.fair.shares import DEFAULT
from events.queue.journal import Expression, ServerTime
from events.queue.requirements import class_key, read_class, read_requirements
from events.runtime.clock import Clock
from events.runtime.errors import Conflict, NotFound, OutOfDate, Rejected, Transient
from events.text.predecessors import OF_GROUP

Beside = Callable[[Callable[[], None]], Awaitable[None]]

TRIES_MAX: Final = 50
PLAN_BYTES_MAX: Final = 1 << 20
ROUNDS_MAX: Final = 50  # earlier ones that a group tells of, the newest
CHECK_S: Final = 10.0  # for the specifications of all slots
CHECKED_AT_ONCE: Final = 200
NOTE_CHARS_MAX: Final = 500
FORMS: Final = frozenset({"new"})  # the page of a group of this name could not be reached
RACE_GOES_ON: Final = "a race is submitted as a whole, and its lanes run at once: cancel it instead"
# What may be changed of a round that has begun: its slots stay those that they are.
LIMITS: Final = frozenset(
    {
        "parallel", "stop_after_failures", "max_runs", "target", "patience", "max_seconds", "max_cost_usd",
        "budget_usd",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedGroup:
    """A group as its author wants it: `run` and `plan` as they are posted, or made of what was `asked`."""

    id: str
    run: Mapping[str, Any]
    plan: Mapping[str, Any]
    by: str
    paused: bool = False
    idempotency_key: str | None = None
    asked: Sequence[Any] | None = None

    @property
    def digest(self) -> str:
        """The hash of what is wanted: equal wishes have the same."""
        body = [self.id, *(self.asked if self.asked is not None else (self.run, self.plan, self.paused))]
        return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()


@dataclass(frozen=True, slots=True)
class GroupService:
    """Changes groups. Raises `Rejected`, `NotFound`, `Conflict`, `Transient`."""

    groups: Groups
    submitter: Submitter
    clock: Clock
    beside: Beside = asyncio.to_thread  # the event loop: a kind decides how long a specification takes
    # Specifications of many slots are checked at once: one request at a time does.
    checks: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def create(self, wanted: WantedGroup) -> bool:
        """Store a new group; the same idempotency key with the same content finds it: then False."""
        if await self.is_known(wanted):
            return False
        if wanted.id in FORMS:
            raise Rejected("bad_id", f"{wanted.id!r} is where the form of a new one is; choose another name")
        await self.require_valid(wanted.id, wanted.run, wanted.plan, by=wanted.by)
        status = GroupStatus.PAUSED if wanted.paused else GroupStatus.OPEN
        run = await self._exact(wanted.run, by=wanted.by)
        fields: Document = {
            "run": dict(run),
            "plan": dict(wanted.plan),
            "status": status.value,
            "round": 1,
            "first": 0,
            "next": 0,
            "filled": 0,
            "canceled": False,
            "counts": Members().counts(),
            "rounds": [],
            "pending": None,
            "journal": [],
            "holdUntil": None,
            "createdBy": wanted.by,
            "namedBy": wanted.by,
        }
        if wanted.idempotency_key is not None:
            fields["idempotency"] = {"key": wanted.idempotency_key, "digest": wanted.digest}
        if await self.groups.create(wanted.id, fields) is not None:
            return True
        if await self.is_known(wanted):
            return False
        raise Conflict("group_exists", f"there is a group {wanted.id!r} already; choose another name")

    async def require_valid(
        self, group_id: str, run: Mapping[str, Any], plan: Mapping[str, Any], *, by: str
    ) -> None:
        """Check a group as `create` does; nothing is stored. Raises `Rejected`."""
        await self._check(group_id, run, plan)
        await self._require_pods(plan)
        await self._require_permitted(run, by)
        await self._require_after(group_id, run, plan)
        await self._require_room(run, plan)

    async def edit(
        self,
        group_id: str,
        *,
        revision: int,
        by: str,
        run: Mapping[str, Any] | None = None,
        plan: Mapping[str, Any] | None = None,
    ) -> None:
        """Change the run or the plan of a group that is not running; of a round that has begun, its limits.

        Raises `OutOfDate` where the group is no longer at `revision`.
        """
        group = await self._find(group_id)
        _require(group, revision)
        usual(Action.EDIT, GroupStatus(group["status"]))
        is_limits_only = run is None and (plan is None or _slots(plan) == _slots(group["plan"]))
        run = group["run"] if run is None else await self._exact(run, by=by)
        plan = plan or group["plan"]
        named_by = (
            group.get("namedBy") if is_limits_only else by
        )  # values decide what a run does with secrets
        added = {*(run.get("after") or ())} - {*(group["run"].get("after") or ())}
        if added:  # else there are loops
            message = f"run.after: {min(added)} is new; what a group waits for is said when it is made"
            raise Rejected("bad_plan", message)
        has_begun = group["status"] not in CLOSED and group["next"] > group["first"]
        if has_begun and (dict(run) != group["run"] or _slots(plan) != _slots(group["plan"])):
            names = ", ".join(sorted(LIMITS))
            message = f"slots of this round are submitted: until it has closed, only {names} can change"
            raise Conflict("round_has_begun", message)
        await self._check(group_id, run, plan)
        await self._require_pods(plan)
        await self._require_permitted(run, named_by)
        if not is_limits_only:
            await self._require_after(group_id, run, plan)
        await self._require_room(run, plan)
        entry = Entry(Action.EDIT, GroupStatus(group["status"]), by)
        sets: dict[str, Any] = {
            name: Expression({"$literal": dict(each)}) for name, each in (("run", run), ("plan", plan))
        }
        sets["namedBy"] = None if named_by is None else Expression({"$literal": named_by})
        if await self.groups.decide(group, entry, sets) is None:
            _require(await self._find(group_id), revision)
            raise _contended(group_id)

    async def pause(self, group_id: str, *, by: str, note: str = "") -> None:
        """Submit no further slot until the group is resumed. Idempotent."""
        if len(note.strip()) > NOTE_CHARS_MAX:
            raise Rejected("bad_note", f"note: at most {NOTE_CHARS_MAX} characters, not {len(note)}")
        await self._act(Action.PAUSE, group_id, by=by, reason=note.strip() or None)

    async def resume(self, group_id: str, *, by: str) -> None:
        """Go on with a paused group. Idempotent."""
        await self.require_project(await self._find(group_id))
        await self._act(Action.RESUME, group_id, by=by)

    async def cancel(self, group_id: str, *, by: str) -> None:
        """Submit nothing more and cancel the members that have not ended. Idempotent."""
        await self._act(Action.CANCEL, group_id, by=by)

    async def again(self, group_id: str, *, revision: int | None, by: str, tick: Tick | None = None) -> Begun:
        """Begin a new round of a closed group; the rounds before it stay.

        Raises `OutOfDate` where a `revision` is given and the group is no longer there. A `tick` of a
        schedule begins one round, however often and by however many it is asked for.
        """
        group = await self._find(group_id)
        if revision is not None:
            _require(group, revision)
        if tick is not None and (known := round_of(group, tick)) is not None:
            return Begun(known, is_new=False)
        await self.require_project(group)
        with reading_of("group", group_id):
            stands, run, plan = GroupStatus(group["status"]), group["run"], group["plan"]
            told = ("round", "first", "next", "status", "counts", "since", "tick")
            earlier = {name: group[name] for name in told if name in group}
            sets = {
                "round": group["round"] + 1,
                "first": group["next"],
                "since": ServerTime(),
                "canceled": False,
                "counts": Members().counts(),
                "rounds": [*group["rounds"], earlier][-ROUNDS_MAX:],
                "tick": None if tick is None else tick.stored(),
            }
        status = usual(Action.AGAIN, stands)
        await self._check(group_id, run, plan)
        await self._require_room(run, plan)
        if await self.groups.decide(group, Entry(Action.AGAIN, status, by), sets) is None:
            found = await self._find(group_id)
            if tick is None:
                _require(found, group["revision"])
            elif (known := round_of(found, tick)) is not None:
                return Begun(known, is_new=False)
            raise _contended(group_id)
        return Begun(group["round"] + 1, is_new=True)

    async def require_project(self, group: Mapping[str, Any]) -> None:
        """Check that whoever asks may submit runs of a group's project. Raises `Rejected`, `Forbidden`."""
        await self.submitter.require_project(group["run"].get("project") or DEFAULT)

    async def _act(self, action: Action, group_id: str, *, by: str, reason: str | None = None) -> None:
        for _ in range(TRIES_MAX):
            group = await self._find(group_id)
            status = GroupStatus(group["status"])
            if status in DONE[action]:  # somebody was faster, or it was we and the answer was lost
                return
            if action is Action.PAUSE and group["plan"]["kind"] == "race":
                raise Conflict("race_goes_on", RACE_GOES_ON)
            entry = Entry(action, usual(action, status), by, reason)
            sets = {"canceled": True} if action is Action.CANCEL else {}
            if await self.groups.decide(group, entry, sets) is not None:
                return
        raise _contended(group_id)

    async def _check(self, group_id: str, run: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
        """Check the plan and the specification of every slot. Raises `Rejected` that names the row."""
        if (size := len(in_json([run, plan]))) > PLAN_BYTES_MAX:
            raise Rejected("bad_plan", f"the group has {size:,} bytes; {PLAN_BYTES_MAX:,} are allowed")
        made = plan_of(plan)
        if isinstance(made, Study):
            require_sampler(made)
            require_measured(made, kind_of(run["kind"], among=RUN_KINDS))
        require_budget(made, run["spec"])
        if isinstance(made, Race) and (run.get("requires") or {}).get("pod") is not None:
            raise Rejected("bad_plan", "run.requires.pod: the lanes of a race say their pods")
        group = {"_id": group_id, "run": run}
        async with self.checks:
            until_s = self.clock.monotonic_s() + CHECK_S
            rows = made.examples()
            for start in range(0, len(rows), CHECKED_AT_ONCE):
                indexes = range(start, min(len(rows), start + CHECKED_AT_ONCE))
                await self.beside(partial(_check_slots, group, made, rows, indexes))
                if self.clock.monotonic_s() > until_s and indexes.stop < len(rows):
                    message = f"checking took {CHECK_S:.0f} s for {indexes.stop:,} of {len(rows):,} slots"
                    raise Rejected("bad_plan", f"plan: {message}; give it fewer")

    async def _exact(self, run: Mapping[str, Any], *, by: str) -> Mapping[str, Any]:
        """Return a run whose inputs are the same for all members. Raises `Rejected`."""
        inputs = self.submitter.inputs
        later = run.get("after") or ()
        return {**run, "spec": dict(await inputs.exact(run["kind"], run["spec"], by=by, later=later))}

    async def _require_pods(self, plan: Mapping[str, Any]) -> None:
        """Check that every pod of a race has ever reported. Raises `Rejected`."""
        made = plan_of(plan)
        pods = Pods(self.groups.db)
        for lane in made.lanes if isinstance(made, Race) else ():
            if await pods.any_named(lane.pod) is None:
                message = f"plan.lanes: there is no pod {lane.pod[:200]!r}; `podfleet pods list` shows them"
                raise Rejected("unknown_pod", message)

    async def _require_room(self, run: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
        """Check that the project of a job's nodes may have their GPUs at once. Raises `Rejected`."""
        made = plan_of(plan)
        if isinstance(made, Matrix) and made.nodes:
            wanted = read_requirements(run.get("requires") or {})
            key = class_key(run["kind"], wanted, run.get("project") or DEFAULT)
            await require_room(self.groups.db, read_class(key), made.nodes)

    async def _require_permitted(self, run: Mapping[str, Any], named_by: str | None) -> None:
        await self.require_project({"run": run})
        names = require_names(run.get("secrets", ()))
        await self.submitter.require_named(names, run["kind"], named_by)

    async def _require_after(self, group_id: str, run: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
        """Check for what the members of a group shall wait. Raises `Rejected`, `Conflict`."""
        after = run.get("after") or ()
        if after and (plan["kind"] == "race" or plan.get("nodes")):
            message = "run.after: members that start together wait for no other run; leave it out"
            raise Rejected("bad_plan", message)
        if f"{OF_GROUP}{group_id}" in after:
            raise Rejected("bad_plan", "run.after: a group cannot wait for itself")
        await self.submitter.has_to_wait(after)

    async def is_known(self, wanted: WantedGroup) -> bool:
        """Say whether this group was made. Raises `Conflict` if its key came with other content."""
        if wanted.idempotency_key is None:
            return False
        found = await self.groups.find(wanted.id)
        kept = (found or {}).get("idempotency")
        if kept is None or kept["key"] != wanted.idempotency_key:
            return False
        if kept["digest"] != wanted.digest:
            message = f"Idempotency-Key {wanted.idempotency_key!r} was used for another group, {wanted.id}"
            raise Conflict("idempotency_conflict", message)
        return True

    async def _find(self, group_id: str) -> Document:
        group = await self.groups.find(group_id)
        if group is None:
            raise NotFound("unknown_group", f"there is no group {group_id!r}")
        with reading_of("group", group_id):
            _require_form(group)
        return group


DONE: Final[Mapping[Action, frozenset[GroupStatus]]] = {
    Action.PAUSE: frozenset({GroupStatus.PAUSED}),
    Action.RESUME: frozenset({GroupStatus.OPEN}),
    Action.CANCEL: frozenset({GroupStatus.CANCELING, GroupStatus.CANCELED}),
}


def _check_slots(group: Mapping[str, Any], plan: Plan, rows: Sequence[Values], indexes: range) -> None:
    for index in indexes:
        values = rows[index]
        try:
            check(submission(group, index, values))
        except Rejected as error:
            # of a study a value is refused only where it is impossible beside any others
            if isinstance(plan, Study) and any(_is_possible(group, each) for each in plan.others(values)):
                continue
            shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
            message = f"row {index + 1} of {len(rows)} ({shown[:200]}): {error.message}"
            raise Rejected(error.code, message) from error


def _is_possible(group: Mapping[str, Any], values: Values) -> bool:
    try:
        check(submission(group, 0, values))
    except Rejected:
        return False
    return True


def _require_form(group: Mapping[str, Any]) -> None:
    """Require what every decision reads of a group. Raises `TypeError`, `ValueError`, `KeyError`."""
    GroupStatus(group["status"])
    kinds = {"run": Mapping, "plan": Mapping, "revision": int, "first": int, "next": int, "round": int}
    if wrong := [name for name, kind in kinds.items() if not isinstance(group[name], kind)]:
        raise TypeError(f"{wrong[0]} is {group[wrong[0]]!r}")


def _slots(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plan.items() if name not in LIMITS}


def _require(group: Mapping[str, Any], revision: int) -> None:
    if group["revision"] != revision:
        message = f"group {group['_id']} is at revision {group['revision']}, not {revision}: look at it again"
        raise OutOfDate("changed_meanwhile", message)


def _contended(group_id: str) -> Transient:
    return Transient("contended", f"group {group_id} is changing concurrently; try again")
