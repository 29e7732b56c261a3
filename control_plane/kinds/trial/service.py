"""Changes tasks: create, edit, start, restart, cancel, clone, delete.

Law: one compare-and-set on the task decides that a round begins; the group is brought there afterwards, by
whoever starts the task next if the first one died in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from control_plane.kinds.trial.bodies import TaskBody, stored
from control_plane.kinds.trial.planning import group_of, plan_of_task, require_valid, run_of, settled
from control_plane.kinds.trial.standing import is_starting, standing_of
from control_plane.kinds.trial.store import Tasks
from control_plane.model.groups.status import CLOSED
from control_plane.model.views.readable import reading_of
from control_plane.runs.groups.service import GroupService, WantedGroup
from control_plane.server.api.contract.bodies import RunBody
from control_plane.server.api.contract.group_bodies import StudyPlan, posted
from control_plane.store.database import Document
from events.queue.fair.shares import DEFAULT
from events.runtime.clock import Ids
from events.runtime.errors import Conflict, NotFound, OutOfDate, Rejected, Transient

TRIES_MAX: Final = 20
CLONES_MAX: Final = 100  # names that are tried
NAME_CHARS_MAX: Final = 200
FIELDS: Final = tuple(TaskBody.model_fields)
RESTARTED: Final = ("COMPLETED", "FAILED", "CANCELLED")
RUNNING: Final = "RUNNING"


def body_of(task: Mapping[str, Any]) -> TaskBody:
    """Return the configuration of a stored task. Raises `UnreadableDocument`."""
    with reading_of("task", task.get("_id")):
        try:
            fields = {name: task[to_camel(name)] for name in FIELDS}
            if isinstance(placement := fields["placement"], Mapping):  # else of whoever asks
                fields["placement"] = {"project": DEFAULT, **placement}
            return TaskBody.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def document_of(body: TaskBody) -> dict[str, Any]:
    """Return the fields of a task as they are stored."""
    return {to_camel(name): value for name, value in stored(body).items()}


@dataclass(frozen=True, slots=True)
class TaskService:
    """Changes tasks. Raises `Rejected`, `NotFound`, `Conflict`, `OutOfDate`, `Transient`."""

    store: Tasks
    groups: GroupService
    ids: Ids

    async def create(self, body: TaskBody, *, by: str) -> str:
        """Store a new task and return its id."""
        task_id = self.ids.ulid()
        await self.require_valid(task_id, body, by)
        await self.store.create(task_id, document_of(settled(body)), by)
        return task_id

    async def replace(self, task_id: str, body: TaskBody, *, revision: int | None, by: str) -> None:
        """Replace the configuration of a task that is not running."""
        await self._find(task_id)
        await self.require_valid(task_id, body, by)
        await self._edit(task_id, document_of(settled(body)), revision=revision, by=by)

    async def describe(self, task_id: str, description: str, *, revision: int | None, by: str) -> None:
        """Change the description of a task, also of one that is running."""
        await self._edit(task_id, {"description": description}, revision=revision, by=by, while_running=True)

    async def cancel(self, task_id: str, *, by: str) -> None:
        """Cancel the round of a running task; it is over when its runs are. Idempotent."""
        for _ in range(TRIES_MAX):
            task, group = await self._find(task_id)
            status = standing_of(task, group).status
            if status == "CANCELLED":
                return
            if status != RUNNING:
                raise Conflict("illegal_task_action", f"Cannot cancel a task that is {status}")
            if not is_starting(task, group):
                return await self.groups.cancel(group_of(task_id), by=by)
            # its round is begun first: a cancel beside whoever begins it now would be lost
            await self._bring(task, by=by)
        raise _contended(task_id)

    async def delete(self, task_id: str, *, revision: int | None) -> None:
        """Remove a task that is not running; its group and its runs stay."""
        for _ in range(TRIES_MAX):
            task, group = await self._find(task_id)
            _require(task, revision)
            if standing_of(task, group).status == RUNNING:
                raise Conflict("task_is_running", "Cannot delete a running task")
            if await self.store.delete(task):
                return
        raise _contended(task_id)

    async def start(self, task_id: str, *, revision: int | None, by: str) -> None:
        """Begin the first round of a task, or finish a start that was cut off."""
        await self._begin(task_id, ("PENDING",), "start", revision=revision, by=by)

    async def restart(self, task_id: str, *, revision: int | None, by: str) -> None:
        """Begin a new round of a task whose last one is over."""
        await self._begin(task_id, RESTARTED, "restart", revision=revision, by=by)

    async def clone(self, task_id: str, name: str | None, *, by: str) -> str:
        """Create a task with the same configuration and another name; return its id."""
        task, _ = await self._find(task_id)
        body = body_of(task)
        if name is not None:
            return await self.create(body.model_copy(update={"name": name}), by=by)
        for number in range(2, CLONES_MAX + 2):
            words = f" ({number})"
            wanted = f"{body.name[: NAME_CHARS_MAX - len(words)]}{words}"
            if await self.store.named(wanted) is None:
                with suppress(Conflict):  # another copy took the name meanwhile
                    return await self.create(body.model_copy(update={"name": wanted}), by=by)
        raise Conflict(
            "task_exists", f"there are {CLONES_MAX} copies of {body.name!r} already; name this one"
        )

    async def require_valid(self, task_id: str, body: TaskBody, by: str) -> None:
        """Check a configuration as the start of its task will. Raises `Rejected`."""
        require_valid(body)
        run, plan = parts_of(body)
        await self.groups.require_valid(group_of(task_id), run, plan, by=by)

    async def _edit(
        self,
        task_id: str,
        fields: Mapping[str, Any],
        *,
        revision: int | None,
        by: str,
        while_running: bool = False,
    ) -> None:
        for _ in range(TRIES_MAX):
            task, group = await self._find(task_id)
            _require(task, revision)
            if not while_running and standing_of(task, group).status == RUNNING:
                raise Conflict("task_is_running", "Cannot edit a running task")
            if await self.store.edit(task, fields, by) is not None:
                return
        raise _contended(task_id)

    async def _begin(
        self, task_id: str, takes: tuple[str, ...], what: str, *, revision: int | None, by: str
    ) -> None:
        for _ in range(TRIES_MAX):
            task, group = await self._find(task_id)
            if is_starting(task, group):
                return await self._bring(task, by=by)
            _require(task, revision)
            status = standing_of(task, group).status
            if status not in takes:
                message = f"Cannot {what} a task that is {status}; it has to be {' or '.join(takes)}"
                raise Conflict("illegal_task_action", message)
            await self.require_valid(task_id, body_of(task), by)  # before it is decided
            rounds = 1 + (0 if group is None else int(group["round"]))
            decided = await self.store.begin(task, rounds)
            if decided is not None:
                return await self._bring(decided, by=by)
        raise _contended(task_id)

    async def _bring(self, task: Document, *, by: str) -> None:
        """Bring the group of a task to its round, beside others who do. Takes the round back if refused."""
        try:
            await self._brought(task, by=by)
        except Rejected as error:
            if not isinstance(error, OutOfDate):
                group = (await self._find(task["_id"]))[1]
                await self.store.begin(task, 0 if group is None else int(group["round"]))
            raise

    async def _brought(self, task: Document, *, by: str) -> None:
        group_id, (run, plan) = group_of(task["_id"]), parts_of(body_of(task))
        for _ in range(TRIES_MAX):
            group = await self.store.find_group(group_id)
            if group is None:
                wanted = WantedGroup(id=group_id, run=run, plan=plan, by=by, idempotency_key=group_id)
                await self.groups.create(wanted)
                return
            if not is_starting(task, group):
                return
            with reading_of("group", group_id):
                status, revision = group["status"], int(group["revision"])
                is_same = (group["run"], group["plan"]) == (run, plan)
            if status not in CLOSED:
                raise Conflict("illegal_task_action", f"its group is {status}; wait until it is closed")
            try:
                if not is_same:
                    await self.groups.edit(group_id, revision=revision, by=by, run=run, plan=plan)
                    continue
                await self.groups.again(group_id, revision=revision, by=by)
            except OutOfDate:
                continue
        raise _contended(task["_id"])

    async def _find(self, task_id: str) -> tuple[Document, Document | None]:
        task = await self.store.find(task_id)
        if task is None:
            raise NotFound("unknown_task", f"there is no task {task_id!r}")
        with reading_of("task", task_id):
            if not (isinstance(task["revision"], int) and isinstance(task["begun"], int)):
                raise TypeError("`revision` and `begun` are numbers")
        group = await self.store.find_group(group_of(task_id))
        with reading_of("group", group_of(task_id)):
            standing_of(task, group)
        return task, group


def parts_of(body: TaskBody) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the run and the plan of a task's group as they are kept. Raises `Rejected`."""
    try:
        run = RunBody.model_validate(run_of(body))
        plan = StudyPlan.model_validate(plan_of_task(body))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Rejected("bad_task", f"optimization: {place}: {first['msg']}") from None
    return posted(run), posted(plan)


def _require(task: Mapping[str, Any], revision: int | None) -> None:
    if revision is not None and task["revision"] != revision:
        now = task["revision"]
        raise OutOfDate(
            "changed_meanwhile", f"the task is at revision {now}, not {revision}: look at it again"
        )


def _contended(task_id: str) -> Transient:
    return Transient("contended", f"task {task_id} is changing concurrently; try again")
