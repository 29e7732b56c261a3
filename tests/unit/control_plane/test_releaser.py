"""Runs that wait for others: released once when all have completed, ended with one that has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import pytest

from control_plane.files.inputs import KnownInputs
from control_plane.model.cancellation import vain_wait_of
from control_plane.model.explanation import QueuePosition, explain
from control_plane.runs.groups.advancer import Advancer
from control_plane.runs.groups.service import GroupService, WantedGroup
from control_plane.runs.options import OptionChanges
from control_plane.runs.submission import Submission, check
from control_plane.store.changes import Change
from control_plane.store.queue.successors import Successors
from control_plane.store.reads import RunReads
from control_plane.upkeep.releaser import Releaser, next_step
from events.kinds.declaring.queues import DEFAULT_MODE
from events.lifecycle import Cause, Status
from events.queue.abilities import Abilities
from events.queue.matching import Seeker
from events.queue.settlement import End
from events.runtime.errors import Conflict, NotFound, Rejected
from events.testing import EPOCH
from tests.unit.control_plane.test_change import BY, LATER, Scene, make_run

FAILED: Final = End("failed", "PROBE_FAILED", "no", retryable=False)
DONE: Final = End("completed", message="done")


class Line(Scene):
    """The same, with two replicas that release."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0
        runs = self.submitter.runs
        self.releasers = [Releaser(runs, Successors(runs.db)) for _ in range(2)]

    async def add(self, *after: str, **more: Any) -> str:
        wanted = Submission(kind="probe", spec={}, by="me", after=after, **more)
        return (await self.submitter.submit(wanted)).run_id

    def take(self) -> str | None:
        """Let a pod claim a run."""
        self.tokens += 1
        abilities = Abilities(kinds=frozenset({"probe"}), gpu_gib=0.0, region=None)
        found = self.queue.claim(Seeker("pod/1", DEFAULT_MODE, abilities), token=self.token)
        return None if found is None else found.run_id

    @property
    def token(self) -> str:
        return f"{self.tokens:043}"

    def end(self, run_id: str, how: End) -> None:
        """Let a pod claim a run and settle it."""
        assert self.take() == run_id
        self.settle(run_id, how)

    def settle(self, run_id: str, how: End) -> None:
        found = self.queue.recover(["runs"], self.token)
        assert found is not None
        assert found.run_id == run_id
        self.queue.settle(found, how, 0, jitter=0.0)

    async def look(self) -> int:
        """Let all replicas look at once; return how many runs they moved."""
        return sum(await asyncio.gather(*(each.run_once() for each in self.releasers)))

    def status(self, run_id: str) -> str:
        return str(self.stored(run_id)["status"])

    async def must_agree(self) -> None:
        assert [each async for each in self.verifier.audit(rebuilds=True) if not each.is_note] == []


async def test_a_run_is_claimed_only_when_all_that_it_waits_for_have_completed() -> None:
    line = Line()
    first, second = await line.add(), await line.add()
    last = await line.add(first, second, first)
    assert line.stored(last)["after"] == [first, second]
    assert (line.status(last), line.stored(last)["queueDeadline"]) == ("DELAYED", None)
    line.end(first, DONE)
    assert await line.look() == 0
    runs = line.submitter.runs
    assert [each.id for each in await runs.due("runs")] == []  # no sweep takes it for one whose time has come
    line.end(second, DONE)
    assert line.take() is None
    assert await line.look() == 1  # of two replicas
    released = line.stored(last)
    assert (released["status"], released["waitsForRuns"]) == ("QUEUED", False)
    assert released["queueDeadline"] is not None
    assert line.take() == last
    assert await line.look() == 0
    await line.must_agree()


@dataclass(frozen=True, slots=True)
class Known:
    """Knows inputs of runs that have ended: all, or none."""

    problem: str = ""

    async def exact(
        self, kind: str, spec: Mapping[str, Any], *, by: str, later: Collection[str] = ()
    ) -> Mapping[str, Any]:
        if self.problem:
            raise NotFound("no_files", self.problem)
        return {**spec, "inputs": {"model": "run:1@tree"}}


async def test_files_of_a_run_are_looked_for_when_it_has_completed() -> None:
    line = Line()
    first = await line.add()
    last = await line.add(first)
    line.end(first, DONE)
    line.releasers = [replace(each, inputs=Known()) for each in line.releasers]
    assert await line.look() == 1
    assert line.pods.run_specs.find_one({"_id": last})["spec"]["inputs"] == {"model": "run:1@tree"}
    assert line.status(last) == "QUEUED"
    await line.must_agree()


async def test_a_run_whose_inputs_are_missing_is_canceled() -> None:
    line = Line()
    first = await line.add()
    last = await line.add(first)
    line.end(first, DONE)
    line.releasers = [replace(each, inputs=Known("it has kept no files")) for each in line.releasers]
    assert (await line.look(), line.status(last)) == (1, "CANCELED")
    assert vain_wait_of(line.stored(last)) == "it has kept no files"


async def test_one_that_fails_ends_what_waits_for_it_and_what_waits_for_that() -> None:
    line = Line()
    first = await line.add(max_attempts=1)
    middle = await line.add(first)
    last = await line.add(middle)
    line.end(first, FAILED)
    assert (await line.look(), await line.look(), await line.look()) == (1, 1, 0)
    assert (line.status(middle), line.status(last)) == ("CANCELED", "CANCELED")
    assert vain_wait_of(line.stored(middle)) == f"run {first}, for which it waited, is FAILED"
    assert vain_wait_of(line.stored(last)) == f"run {middle}, for which it waited, is CANCELED"
    (why,) = explain(line.stored(middle), QueuePosition(0, 0, 0), [], now=EPOCH)
    assert first in why.message
    await line.must_agree()
    with pytest.raises(Conflict, match="retry it"):
        await line.add(first)
    with pytest.raises(Conflict, match=first):
        await line.submitter.retry(middle, by=BY)
    again = (await line.submitter.retry(first, by=BY)).run_id
    waits = (await line.submitter.retry(middle, by=BY)).run_id
    assert (line.stored(waits)["after"], line.status(waits)) == ([again], "DELAYED")
    line.end(again, DONE)
    assert await line.look() == 1
    assert await RunReads(line.submitter.runs.db).successors(again) == [waits]
    assert line.take() == waits


async def test_a_run_that_is_tried_again_is_waited_for() -> None:
    line = Line()
    first = await line.add()
    last = await line.add(first)
    assert line.take() == first
    line.settle(first, End("failed", "PROBE_FAILED", "no", retryable=True))
    assert (line.status(first), await line.look()) == ("DELAYED", 0)
    await line.decider.cancel(first, by=BY)
    assert (await line.look(), line.status(last)) == (1, "CANCELED")


async def test_what_has_completed_is_not_waited_for_and_what_is_not_there_is_refused() -> None:
    line = Line()
    first = await line.add()
    line.end(first, DONE)
    assert line.status(await line.add(first)) == "QUEUED"
    with pytest.raises(Rejected, match="no run 'nobody'"):
        await line.add(first, "nobody")


def groups_of(line: Line) -> tuple[GroupService, Advancer]:
    """Return what makes groups of this store, and what carries on with them."""
    groups = line.submitter.groups
    service = GroupService(groups, line.submitter, line.decider.clock, beside=at_once)
    return service, Advancer(groups, line.submitter, line.decider)


async def at_once(work: Callable[[], None]) -> None:
    work()


def matrix(name: str, *after: str, **more: Any) -> WantedGroup:
    run = {"kind": "probe", "spec": {}, **({"after": list(after)} if after else {})}
    plan = {"kind": "matrix", "values": {"seconds": [0.1, 0.2]}, "parallel": 2}
    return WantedGroup(**{"id": name, "run": run, "plan": plan, "by": "me", **more})


async def test_a_group_waits_for_a_run_and_a_run_for_the_group() -> None:
    line = Line()
    service, advancer = groups_of(line)
    first = await line.add()
    await service.create(matrix("g", first))
    last = await line.add("group:g")
    assert await advancer.run_once() == 2
    members = [each["_id"] for each in line.pods.runs.find({"groupId": "g"}).sort("slot", 1)]
    assert {line.status(each) for each in (*members, last)} == {"DELAYED"}
    (why,) = explain(
        line.stored(last), QueuePosition(0, 0, 0), [], now=EPOCH, predecessors={"group:g": "RUNNING"}
    )[:1]
    assert why.message == "it waits for group g, which is RUNNING"
    line.end(first, DONE)
    assert (await line.look(), line.status(last)) == (2, "DELAYED")
    for each in members:
        line.end(each, DONE)
    assert (await line.look(), line.status(last)) == (0, "DELAYED"), "the group is not closed yet"
    line.pods.runs.update_one({"_id": members[0]}, {"$set": {"logOpen": True}})
    await advancer.run_once()
    assert (await line.look(), line.status(last)) == (0, "DELAYED"), "files may be on their way"
    line.pods.runs.update_one({"_id": members[0]}, {"$set": {"logOpen": False}})
    assert (await line.look(), line.status(last)) == (1, "QUEUED")
    assert line.status(await line.add("group:g")) == "QUEUED"


async def test_what_a_group_waits_for_fails_and_so_does_the_group_and_what_waits_for_it() -> None:
    line = Line()
    service, advancer = groups_of(line)
    first = await line.add(max_attempts=1)
    await service.create(matrix("g", first))
    await service.create(matrix("late", first, paused=True))
    last = await line.add("group:g")
    assert await advancer.run_once() == 2
    line.end(first, FAILED)
    assert await line.look() == 2
    await advancer.run_once()
    assert (await line.look(), line.status(last)) == (1, "CANCELED")
    assert vain_wait_of(line.stored(last)) == "group g, for which it waited, is FAILED"
    assert line.stored(last)["cancelRequested"]["by"] == "group:g"
    with pytest.raises(Conflict, match="group g is FAILED; run it again"):
        await line.add("group:g")
    await service.resume("late", by="me")
    await advancer.run_once()
    stored = line.pods.groups.find_one({"_id": "late"})
    assert (stored["status"], stored["journal"][-1]["reason"]) == (
        "PAUSED", f"after: run {first} is FAILED; retry it, and wait for the retry",
    )  # fmt: skip
    await line.must_agree()


async def test_no_group_waits_for_itself_or_for_what_came_later() -> None:
    line = Line()
    service, _ = groups_of(line)
    with pytest.raises(Rejected, match="cannot wait for itself"):
        await service.create(matrix("g", "group:g"))
    with pytest.raises(Rejected, match="no group 'late'"):
        await service.create(matrix("g", "group:late"))
    first = await line.add()
    await service.create(matrix("g", first, paused=True))
    await line.add("group:g")
    await service.create(matrix("late", "group:g", paused=True))
    stored = line.pods.groups.find_one({"_id": "g"})
    for after in (["group:late"], ["group:g"], [first, await line.add("group:late")]):
        run = {**stored["run"], "after": after}
        with pytest.raises(Rejected, match="is said when it is made"):
            await service.edit("g", revision=stored["revision"], by="me", run=run)
    await service.edit("g", revision=stored["revision"], by="me", run={**stored["run"], "after": []})
    for plan in ({"kind": "matrix", "nodes": 2, "parallel": 2}, {"kind": "race"}):
        with pytest.raises(Rejected, match="start together"):
            await service._require_after("n", {"after": [first]}, plan)


async def test_retries_wait_for_the_newest_of_64_and_make_no_loop() -> None:
    line = Line()
    many = [await line.add(max_attempts=1) for _ in range(64)]
    last = await line.add(*many)
    line.end(many[0], FAILED)
    assert (await line.look(), line.status(last)) == (1, "CANCELED")
    newest = many[0]
    for _ in range(3):  # a retry of a retry, each of which fails
        newest = (await line.submitter.retry(newest, by=BY)).run_id
        line.pods.runs.update_one({"_id": newest}, {"$set": {"priority": 9, "maxAttempts": 1}})
        line.end(newest, FAILED)
    newest = (await line.submitter.retry(newest, by=BY)).run_id
    again = (await line.submitter.retry(last, by=BY)).run_id
    assert line.stored(again)["after"] == [newest, *many[1:]]
    assert newest < again, "what is waited for is always older"
    # one whose parent is what waits for it: damage, which ends the look
    line.pods.runs.update_one({"_id": newest}, {"$set": {"parentRunId": newest, "status": "FAILED"}})
    line.pods.runs.update_one({"_id": again}, {"$set": {"status": "CANCELED"}})
    with pytest.raises(Conflict, match=newest):
        await line.submitter.retry(again, by=BY)


async def test_a_damaged_run_that_waits_holds_up_no_other() -> None:
    line = Line()
    first = await line.add()
    last = await line.add(first)
    odd = {"status": "DELAYED", "waitsForRuns": True, "after": [first]}
    line.pods.runs.insert_many([{"_id": f"0{number:03}", **odd} for number in range(120)], ordered=False)
    line.end(first, DONE)
    assert (await line.look(), line.status(last)) == (1, "QUEUED")


async def test_files_that_are_on_their_way_are_no_input_yet() -> None:
    line = Line()
    first = await line.add()
    line.end(first, DONE)
    line.pods.runs.update_one({"_id": first}, {"$set": {"logOpen": True}})
    runs, no_shelf = line.submitter.runs, cast(Any, None)
    inputs = KnownInputs(no_shelf, runs, RunReads(runs.db))
    with pytest.raises(Conflict, match="on their way"):
        await inputs.exact("job", {"inputs": {"model": f"run:{first}/*.pt"}}, by=BY)


async def test_the_inputs_of_many_members_are_looked_for_once() -> None:
    line, looked = Line(), list[Mapping[str, Any]]()

    class Counted(Known):
        """Counts how often it is asked."""

        async def exact(
            self, kind: str, spec: Mapping[str, Any], *, by: str, later: Collection[str] = ()
        ) -> Mapping[str, Any]:
            looked.append(spec)
            return {**spec, "inputs": {"a": f"found-{spec['inputs']['a']}"}}

    submitter = replace(line.submitter, inputs=Counted())

    def wanted(source: str, number: int) -> Submission:
        return Submission(kind="job", spec={"command": f"x {number}", "inputs": {"a": source}}, by="me")

    wishes = [("a", 0), ("b", 1), ("a", 2)]
    assert (
        await submitter.enqueue_all(
            {f"r{number}": check(wanted(*each)) for number, each in enumerate(wishes)}
        )
        == 3
    )
    assert looked == [{"inputs": {"a": "a"}}, {"inputs": {"a": "b"}}]
    for number, (source, _) in enumerate(wishes):
        spec = line.pods.run_specs.find_one({"_id": f"r{number}"})["spec"]
        assert (spec["command"], spec["inputs"]) == (f"x {number}", {"a": f"found-{source}"})


async def test_what_completes_at_the_moment_of_a_submission_is_looked_for() -> None:
    line = Line()
    first = await line.add()
    moments: list[str] = []

    class Late(Known):
        """Knows the files of what has completed, which happens as they are first asked for."""

        async def exact(
            self, kind: str, spec: Mapping[str, Any], *, by: str, later: Collection[str] = ()
        ) -> Mapping[str, Any]:
            moments.append(line.status(first))
            if len(moments) == 1:
                line.end(first, DONE)
                return spec
            return await super().exact(kind, spec, by=by, later=later)

    line.submitter = replace(line.submitter, inputs=Late())
    line.releasers = [replace(each, inputs=Late()) for each in line.releasers]
    last = await line.add(first)
    assert line.status(last) == "DELAYED", "it was not known what it reads"
    assert await line.look() == 1
    assert line.pods.run_specs.find_one({"_id": last})["spec"]["inputs"] == {"model": "run:1@tree"}


async def test_a_start_and_other_options_wait_with_it() -> None:
    line = Line()
    first = await line.add()
    last = await line.add(first, not_before=LATER)
    changed = await line.decider.change(last, OptionChanges(not_before=None, priority=3), by=BY)
    assert (changed.status, changed.not_before, changed.priority) == (Status.DELAYED, None, 3)
    await line.decider.change(last, OptionChanges(not_before=LATER, queue_limit_s=60), by=BY)
    line.end(first, DONE)
    assert await line.look() == 1
    released = line.stored(last)
    assert (released["status"], released["notBefore"]) == ("DELAYED", LATER)
    assert (released["queueDeadline"] - released["queuedAt"]).total_seconds() == 60
    assert (released["queuedAt"], released["waitsForRuns"]) == (LATER, False)
    await line.must_agree()


async def test_more_than_a_page_is_released_when_the_feed_tells() -> None:
    line = Line()
    first, other = await line.add(), await line.add()
    for _ in range(101):
        await line.add(other)
    last = await line.add(first)
    line.end(first, DONE)
    releaser = line.releasers[0]
    releaser.hear(Change("1", "runs", first, has_ended=True))
    assert (await releaser.run_once(), line.status(last)) == (1, "QUEUED")


def test_files_that_are_on_their_way_are_waited_for() -> None:
    run = make_run(Status.DELAYED, after=("a",), waits_for_runs=True)
    assert next_step(run, {"a": {"status": "COMPLETED", "logOpen": True}}) is None
    assert next_step(run, {"a": {"status": "AWAITING_HUMAN", "logOpen": False}}) is None
    decision = next_step(run, {"a": {"status": "HUMAN_VALIDATED", "logOpen": False}})
    assert decision is not None
    assert decision.cause is Cause.RELEASE
    for lost in ({}, {"a": {"status": "HUMAN_REJECTED", "logOpen": False}}):
        decision = next_step(run, lost)
        assert decision is not None
        assert decision.to is Status.CANCELED
