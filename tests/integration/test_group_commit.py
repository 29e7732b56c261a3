"""Requests that arrive together are stored together, each with its own verdicts; and what that costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from pymongo import monitoring

from events import catalog as c
from events.codec import decode_ndjson
from events.runtime.errors import Transient
from tests.integration.test_core import POD, Core, in_core, line, whole_log


class Commands(monitoring.CommandListener):
    """Counts what is asked of the server, by command and collection."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.sent[f"{event.command_name} {event.command.get(event.command_name)}"] += 1

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


@pytest.fixture
def commands() -> Iterator[Commands]:
    """What connections made from now on ask of the server."""
    listener = Commands()
    known = monitoring._LISTENERS.command_listeners
    known.append(listener)
    yield listener
    known.remove(listener)


def metrics(run_id: str, first: int, count: int) -> list[bytes]:
    return [
        line(run_id, number, c.StageMetric(stage="train", name="loss", value=1.0, step=number))
        for number in range(first, first + count)
    ]


async def begun(core: Core, commands: Commands, *, runs: int = 1) -> list[str]:
    """Return runs that are claimed and whose first event was applied; count from here."""
    names = []
    for number in range(runs):
        await core.submit()
        names.append((await core.claim(f"token-{number}")).run_id)
        await core.send(line(names[-1], 1, c.StageStarted(stage="train")))
    commands.sent.clear()
    return names


@pytest.mark.parametrize("count", [1, 500])
def test_a_request_costs_seven_commands_however_many_events_it_brings(
    database_url: str, commands: Commands, count: int
) -> None:
    async def scenario(core: Core) -> None:
        (run_id,) = await begun(core, commands)
        progress = line(run_id, count + 1, c.StageProgress(stage="train", progress=0.5))
        answer = await core.send(*metrics(run_id, 2, count - 1), progress)
        assert (answer.accepted, answer.acked_through) == (count, {f"{run_id}/1": count + 1})
        assert commands.sent == {
            "find runs": 1, "insert events": 1, "find attempts": 1, "update stages": 1, "update attempts": 1,
            "update runs": 1, "find events": 1,
        }  # fmt: skip

    in_core(database_url, scenario)


def test_a_repeated_request_is_found_in_two_reads_and_inserts_nothing(
    database_url: str, commands: Commands
) -> None:
    async def scenario(core: Core) -> None:
        (run_id,) = await begun(core, commands)
        lines = metrics(run_id, 2, 300)
        await core.send(*lines)
        commands.sent.clear()
        answer = await core.send(*lines)
        assert (answer.accepted, answer.duplicates) == (0, 300)
        assert answer.acked_through == {f"{run_id}/1": 301}
        assert commands.sent == {"find runs": 1, "find events": 1}
        other = lines[0].replace(b"loss", b"gain")
        moved = line(run_id, 3, c.RunLog(message="me first"), name="other")
        answer = await core.send(other, moved, lines[2])
        assert [(each.line, each.code) for each in answer.rejected] == [(1, "conflict"), (2, "conflict")]
        assert answer.duplicates == 1

    in_core(database_url, scenario)


def test_requests_that_come_together_share_every_command_and_no_verdict(
    database_url: str, commands: Commands
) -> None:
    async def scenario(core: Core) -> None:
        runs = await begun(core, commands, runs=3)
        bodies = [metrics(run_id, 2, 50) for run_id in runs]
        bodies[1].insert(10, line(runs[1], 2, c.RunLog(message="me first"), name="other"))
        bodies[2].append(bodies[2][0])
        answers = await asyncio.gather(*(core.send(*body) for body in bodies))
        assert [each.accepted for each in answers] == [50, 50, 50]
        assert [each.duplicates for each in answers] == [0, 0, 1]
        assert [[(bad.line, bad.code) for bad in each.rejected] for each in answers] == [
            [], [(11, "conflict")], [],
        ]  # fmt: skip
        assert [each.acked_through for each in answers] == [{f"{run_id}/1": 51} for run_id in runs]
        assert (commands.sent["find runs"], commands.sent["insert events"]) == (1, 1)
        for run_id in runs:
            await core.must_equal_its_log(run_id)

    in_core(database_url, scenario)


def test_a_request_that_cannot_be_stored_keeps_none_from_being_stored(
    database_url: str, commands: Commands
) -> None:
    async def scenario(core: Core) -> None:
        runs = await begun(core, commands, runs=2)
        await core.db.command("collMod", "events", validator={"data.message": {"$ne": "poison"}})
        poisoned = [*metrics(runs[0], 2, 5), line(runs[0], 7, c.RunLog(message="poison"))]
        told = await asyncio.gather(
            core.send(*poisoned), core.send(*metrics(runs[1], 2, 5)), return_exceptions=True
        )
        assert isinstance(told[0], Transient)
        assert not isinstance(told[1], BaseException)
        assert (told[1].accepted, told[1].acked_through) == (5, {f"{runs[1]}/1": 6})
        assert commands.sent["insert events"] == 1
        assert (await core.run(runs[0]))["lastEventSeq"] == 1
        await core.db.command("collMod", "events", validator={})
        again = await core.send(*poisoned)  # as its sender does
        assert (again.accepted, again.duplicates, again.acked_through) == (1, 5, {f"{runs[0]}/1": 7})
        await core.must_equal_its_log(runs[0])

    in_core(database_url, scenario)


def test_a_request_that_is_given_up_keeps_none_from_being_stored(
    database_url: str, commands: Commands
) -> None:
    async def scenario(core: Core) -> None:
        runs = await begun(core, commands, runs=2)
        sent = [asyncio.create_task(core.send(*metrics(run_id, 2, 200))) for run_id in runs]
        while not commands.sent["insert events"]:
            await asyncio.sleep(0)
        sent[0].cancel()
        assert (await sent[1]).acked_through == {f"{runs[1]}/1": 201}
        await core.send(*metrics(runs[0], 2, 200))
        for run_id in runs:
            assert (await core.run(run_id))["lastEventSeq"] == 201
            await core.must_equal_its_log(run_id)

    in_core(database_url, scenario)


def test_two_requests_of_one_run_at_once_leave_no_gap(database_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        log = whole_log(run_id)
        lines = [decode_ndjson(b"\n".join(part)) for part in (log[:2], log[2:5], log[5:], log[1:6])]
        await asyncio.gather(*(core.ingestor.take(each, POD) for each in lines))
        assert (await core.run(run_id))["lastEventSeq"] == 7
        await core.must_equal_its_log(run_id)

    in_core(database_url, scenario)
