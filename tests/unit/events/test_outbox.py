"""The durable spool: gap-free sequences, nothing lost, one transaction for an end."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from events.catalog import EventRefused, RunCanceled, RunCompleted, RunFailed, RunPreempted, RunStarted
from events.codec import LINE_BYTES_MAX, decode_structured
from events.delivery import high_water_mark
from events.delivery import outbox as outbox_module
from events.delivery.event_encoder import Row, end_of
from events.delivery.outbox import DUE_EVENTS, Outbox
from events.delivery.pipe import FactFrame
from events.envelope import Event, line_hash
from events.kinds.experiment import NodeCreated
from events.queue.settlement import End, pod_lost
from events.runtime.errors import ConfigError, Conflict, Rejected, Transient
from events.testing import FIRST, RUN_ID, ManualClock, SeededIds, make_attempt, make_logs, make_outbox
from events.text.attempt_id import AttemptId

OTHER = "01K00000000000000000000002"
APPENDER = """
import sys
from pathlib import Path
from events.runtime.clock import SystemClock, SystemIds
from events.catalog import RunLog
from events.delivery.outbox import Outbox
from events.text.attempt_id import AttemptId
outbox = Outbox(Path(sys.argv[1]), clock=SystemClock(), ids=SystemIds())
outbox.open_attempt(AttemptId("run", 1), token="t", source="s", collection="runs")
while True:
    last = outbox.append(AttemptId("run", 1), [RunLog(message="x"), RunLog(message="y")])
    sys.stdout.write(f"{last}\\n")
    sys.stdout.flush()
"""
# No file may grow at all; SQLite meets the limit when it makes its own.
NO_DISK = """
import resource, signal, sys
from pathlib import Path
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError
from events.delivery.outbox import Outbox

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    Outbox(Path(sys.argv[1]), clock=SystemClock(), ids=SystemIds())
except ConfigError as error:
    print(error.message)
"""
TIGHT_DISK = """
import resource, sys
from pathlib import Path
from events.catalog import RunFailed, RunLog
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Transient
from events.delivery.outbox import Outbox
from events.delivery.event_encoder import end_of
from events.text.attempt_id import AttemptId
outbox = Outbox(Path(sys.argv[1]), clock=SystemClock(), ids=SystemIds())
outbox.open_attempt(AttemptId("run", 1), token="t", source="s", collection="runs")
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
last = 0
try:
    while True:
        last = outbox.append(AttemptId("run", 1), [RunLog(message="x" * 1000)])
except Transient as error:
    print(error.code, last, outbox.pending())
"""


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    with make_outbox(tmp_path) as opened:
        make_attempt(opened)
        yield opened


def rows_of(outbox: Outbox) -> list[Row]:
    """Return everything that waits, attempt after attempt in the order of their beginnings."""
    rows: list[Row] = []
    seen: set[tuple[str, int]] = set()
    while found := outbox.batch(1_000_000, 1 << 40, seen):
        rows += found
        assert {(row.run_id, row.attempt) for row in found}.isdisjoint(seen)
        seen |= {(row.run_id, row.attempt) for row in found}
    return rows


def decoded(row: Row) -> Event:
    event = decode_structured(row.line)
    assert isinstance(event, Event), event
    return event


def test_sequences_count_from_one_per_attempt(outbox: Outbox) -> None:
    make_attempt(outbox, OTHER)
    assert outbox.append(FIRST, make_logs(2)) == 2
    assert outbox.append(AttemptId(OTHER, 1), make_logs(1)) == 1
    assert outbox.append(FIRST, make_logs(1)) == 3
    assert [(row.run_id, row.sequence) for row in rows_of(outbox)] == [
        (RUN_ID, 1), (RUN_ID, 2), (RUN_ID, 3), (OTHER, 1),
    ]  # fmt: skip


def test_a_kept_line_is_an_event_that_ingest_reads(outbox: Outbox) -> None:
    outbox.append(FIRST, [RunStarted(pod="pod-7"), FactFrame(type="ai.race.lap", data={"lap": 3})])
    started, lap = (decoded(row) for row in rows_of(outbox))
    assert (started.fact, started.run_id, started.attempt, started.sequence) == (
        RunStarted(pod="pod-7"), RUN_ID, 1, 1,
    )  # fmt: skip
    assert (lap.type, lap.data, lap.sequence) == ("ai.race.lap", {"lap": 3}, 2)
    assert started.time == "2026-01-01T00:00:00.000Z"


def test_what_was_kept_is_there_after_reopening_and_numbering_goes_on(tmp_path: Path) -> None:
    with make_outbox(tmp_path) as first:
        make_attempt(first)
        first.append(FIRST, make_logs(3))
        before = rows_of(first)
    with make_outbox(tmp_path, ids=SeededIds(1)) as second:
        assert rows_of(second) == before
        assert second.pending() == 3
        assert second.append(FIRST, make_logs(1)) == 4


def test_a_batch_keeps_both_limits_and_is_never_empty_while_something_waits(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(10))
    size = len(rows_of(outbox)[0].line) + 1
    assert len(outbox.batch(4, 1 << 20)) == 4
    assert len(outbox.batch(100, 3 * size)) == 3
    assert len(outbox.batch(100, 1)) == 1


def test_confirming_twice_changes_nothing(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(3))
    first, *_ = rows_of(outbox)
    outbox.confirm([first])
    outbox.confirm([first])
    assert outbox.pending() == 2
    assert [row.sequence for row in rows_of(outbox)] == [2, 3]


def test_a_refused_line_is_replaced_by_a_refusal_with_its_sequence(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(3))
    refused = rows_of(outbox)[1]
    outbox.replace_refused(refused, "invalid_data", "no such field")
    after = rows_of(outbox)
    assert [row.sequence for row in after] == [1, 2, 3]
    assert after[1].id != refused.id
    assert decoded(after[1]).fact == EventRefused(
        refused_type="ai.run.log",
        code="invalid_data",
        message="no such field",
        digest=line_hash(refused.line),
    )
    outbox.confirm([refused])  # a late verdict about the old line does not touch the new one
    assert outbox.pending() == 3


def test_the_same_line_refused_again_is_replaced_by_the_very_same_refusal(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(1))
    (row,) = rows_of(outbox)
    outbox.replace_refused(row, "code", "why")
    (once,) = rows_of(outbox)
    outbox.replace_refused(row, "code", "why")
    assert rows_of(outbox) == [once]


def test_an_event_that_no_line_can_carry_becomes_a_refusal_and_its_neighbours_stay(outbox: Outbox) -> None:
    huge = NodeCreated(stage="Stage_1", node="n1", plan="x" * LINE_BYTES_MAX)
    surrogate = FactFrame(type="ai.run.log", data={"message": "\ud800"})
    outbox.append(FIRST, [*make_logs(1), huge, surrogate, *make_logs(1)])
    facts = [decoded(row).fact for row in rows_of(outbox)]
    refusals = [fact for fact in facts if isinstance(fact, EventRefused)]
    assert [refusal.code for refusal in refusals] == ["too_large", "unstorable"]
    assert [decoded(row).sequence for row in rows_of(outbox)] == [1, 2, 3, 4]


def test_an_attempt_that_a_crash_cut_off_waits_to_be_settled_as_lost(tmp_path: Path) -> None:
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox)
        outbox.append(FIRST, make_logs(2))
    how = pod_lost("it was started again")
    with make_outbox(tmp_path) as after_a_crash:
        after_a_crash.lose(FIRST, how)
        assert after_a_crash.unended() == []
        ((attempt, said),) = [(each.attempt, each.how) for each in after_a_crash.unsettled()]
        assert (attempt.last, said) == (2, how)
        with pytest.raises(Conflict):
            after_a_crash.append(FIRST, make_logs(1))
        after_a_crash.mark_settled(FIRST)
        after_a_crash.lose(FIRST, how)
        assert after_a_crash.unsettled() == []
        assert len(rows_of(after_a_crash)) == 2, "what was stored is delivered"


def test_the_end_and_the_intention_to_settle_are_one(tmp_path: Path) -> None:
    failed = RunFailed(code="TIMEOUT", message="too slow", stage="Stage_2", retryable=True)
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox)
        outbox.append(FIRST, make_logs(2))
        intention = outbox.append_end(FIRST, failed, end_of(failed))
        assert outbox.unended() == []
    assert intention.how == End("failed", "TIMEOUT", "too slow", "Stage_2", True)
    assert (intention.attempt.last, intention.attempt.token) == (3, "token-1")
    with make_outbox(tmp_path) as after_a_crash:
        assert after_a_crash.unsettled() == [intention]
        after_a_crash.confirm(rows_of(after_a_crash))
        assert after_a_crash.unsettled() == [intention], "delivered is not settled"
        after_a_crash.mark_settled(FIRST)
        assert after_a_crash.unsettled() == []


def test_nothing_is_kept_after_the_end(outbox: Outbox) -> None:
    outbox.append_end(FIRST, RunCompleted(), End("completed"))
    with pytest.raises(Conflict, match="has ended"):
        outbox.append(FIRST, make_logs(1))
    with pytest.raises(Conflict, match="has ended"):
        outbox.append_end(FIRST, RunCanceled(), End("canceled"))
    assert outbox.pending() == 1


def test_an_end_without_its_settlement_and_a_settlement_without_an_end_are_refused(outbox: Outbox) -> None:
    with pytest.raises(Rejected, match="append_end") as raised:
        outbox.append(FIRST, [*make_logs(1), RunCompleted()])
    assert raised.value.code == "end_without_settlement"
    with pytest.raises(Rejected, match="does not end") as raised:
        outbox.append_end(FIRST, make_logs(1)[0], End("completed"))
    assert raised.value.code == "not_an_end"
    assert outbox.pending() == 0


def test_an_end_too_long_for_a_line_is_cut_and_still_ends(outbox: Outbox) -> None:
    failed = RunFailed(code="X", message="m" * 400_000 + "\ud800", traceback="\ud800" + "t" * 400_000)
    intention = outbox.append_end(FIRST, failed, end_of(failed))
    (row,) = rows_of(outbox)
    fact = decoded(row).fact
    assert isinstance(fact, RunFailed)
    assert fact.code == "X"
    assert fact.traceback is not None
    assert fact.traceback.startswith("?ttt")
    assert len(intention.how.message or "") == 4_000


@pytest.mark.parametrize(
    ("fact", "how"),
    [
        (RunCompleted(summary="done"), End("completed", message="done")),
        (RunCanceled(reason="asked"), End("canceled", message="asked")),
        (RunPreempted(reason="gone"), End("preempted", message="gone")),
    ],
)
def test_each_end_event_says_how_the_attempt_ended(fact: RunCompleted, how: End) -> None:
    assert end_of(fact) == how


def test_a_fact_that_ends_nothing_has_no_settlement() -> None:
    with pytest.raises(Rejected, match=r"ai\.run\.started"):
        end_of(RunStarted())


def test_an_attempt_leaves_when_it_is_settled_and_drained_in_either_order(outbox: Outbox) -> None:
    make_attempt(outbox, OTHER)
    for run_id in (RUN_ID, OTHER):
        outbox.append_end(AttemptId(run_id, 1), RunCompleted(), End("completed"))
    first, second = rows_of(outbox)
    outbox.mark_settled(FIRST)
    assert not outbox.has_left(FIRST, 1)
    outbox.confirm([first, second])
    assert outbox.has_left(FIRST, 1_000)
    assert [intention.attempt.run_id for intention in outbox.unsettled()] == [OTHER]
    outbox.mark_settled(AttemptId(OTHER, 1))
    with pytest.raises(Conflict, match="not open here"):
        outbox.append(AttemptId(OTHER, 1), make_logs(1))


def test_an_abandoned_attempt_takes_nothing_more_and_is_still_delivered(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(2))
    assert [attempt.last for attempt in outbox.unended()] == [2]
    outbox.abandon(FIRST)
    with pytest.raises(Conflict):
        outbox.append(FIRST, make_logs(1))
    assert outbox.unended() == []
    assert outbox.unsettled() == []
    assert len(rows_of(outbox)) == 2


def test_a_claim_found_again_goes_on_where_it_was_and_a_foreign_token_does_not(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(2))
    make_attempt(outbox)
    assert outbox.append(FIRST, make_logs(1)) == 3
    with pytest.raises(Conflict, match="was opened and ended before") as raised:
        make_attempt(outbox, token="token-2")
    assert raised.value.code == "attempt_closed"


def test_an_attempt_that_was_never_opened_takes_nothing(outbox: Outbox) -> None:
    with pytest.raises(Conflict, match="not open here"):
        outbox.append(AttemptId(OTHER, 1), make_logs(1))


def test_the_limit_stops_events_but_no_end_and_goes_with_the_backlog(tmp_path: Path) -> None:
    with make_outbox(tmp_path, bytes_max=200_000) as outbox:
        make_attempt(outbox)
        last = 0
        while not outbox.is_full():
            last = outbox.append(FIRST, make_logs(20))
        with pytest.raises(Transient, match="holds its limit") as raised:
            outbox.append(FIRST, make_logs(1))
        assert raised.value.code == "OUTBOX_FULL"
        assert outbox.pending() == last
        outbox.confirm(outbox.batch(last // 2, 1 << 30))
        assert not outbox.is_full()
        assert outbox.append(FIRST, make_logs(1)) == last + 1
        while not outbox.is_full():
            last = outbox.append(FIRST, make_logs(20))
        assert outbox.append_end(FIRST, RunCompleted(), End("completed")).attempt.last == last + 1


def test_at_its_limit_an_outbox_is_hardly_larger_and_takes_no_new_attempt(tmp_path: Path) -> None:
    with make_outbox(tmp_path, bytes_max=200_000) as outbox:
        make_attempt(outbox)
        outbox.check_room()
        while not outbox.is_full():
            outbox.append(FIRST, make_logs(1))
        assert 200_000 <= outbox.size_bytes() < 220_000
        with pytest.raises(Transient) as raised:
            outbox.check_room()
        assert raised.value.code == "OUTBOX_FULL"


def test_a_batch_counts_the_end_of_each_line(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(2))
    size = sum(len(row.line) for row in rows_of(outbox))
    assert [len(outbox.batch(10, size + more)) for more in (1, 2)] == [1, 2]


def test_an_attempt_that_ended_is_not_opened_again(outbox: Outbox) -> None:
    outbox.append_end(FIRST, RunCompleted(), End("completed"))
    with pytest.raises(Conflict, match="was opened and ended before"):
        make_attempt(outbox)


def test_only_what_ended_is_settled_and_only_what_did_not_is_abandoned(outbox: Outbox) -> None:
    outbox.mark_settled(FIRST)
    assert outbox.append(FIRST, make_logs(1)) == 1
    outbox.append_end(FIRST, RunCompleted(), End("completed"))
    outbox.abandon(FIRST)
    assert len(outbox.unsettled()) == 1


def test_an_attempt_that_was_settled_before_it_was_drained_is_forgotten_behind_its_last_line(
    outbox: Outbox, tmp_path: Path
) -> None:
    outbox.append_end(FIRST, RunCompleted(), End("completed"))
    outbox.mark_settled(FIRST)
    outbox.confirm(rows_of(outbox))
    with closing(sqlite3.connect(tmp_path / "outbox.sqlite3")) as observer:
        assert observer.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


def test_a_refusal_that_comes_late_replaces_no_other_line(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(1))
    (gone,) = rows_of(outbox)
    outbox.confirm([gone])
    outbox.append(FIRST, make_logs(1, first=2))
    (row,) = rows_of(outbox)
    assert row.position == gone.position, "SQLite gives a place again"
    outbox.replace_refused(gone, "conflict", "it came too late")
    assert rows_of(outbox) == [row]


def test_what_waits_since_an_earlier_start_is_due_at_once(tmp_path: Path) -> None:
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox)
        outbox.append(FIRST, make_logs(DUE_EVENTS))
    with make_outbox(tmp_path) as outbox:
        assert outbox.due.is_set()


def test_freed_space_is_used_again(outbox: Outbox, tmp_path: Path) -> None:
    def used_bytes() -> int:
        for _ in range(20):
            outbox.append(FIRST, make_logs(50))
        outbox.confirm(rows_of(outbox))
        with closing(sqlite3.connect(tmp_path / "outbox.sqlite3")) as observer:
            observer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return (tmp_path / "outbox.sqlite3").stat().st_size

    first = used_bytes()
    later = [used_bytes() for _ in range(5)]
    assert max(later) < 1.2 * first
    assert outbox.size_bytes() < first / 10


def test_a_disk_that_takes_no_more_is_a_named_failure_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite3"
    done = subprocess.run(
        [sys.executable, "-c", TIGHT_DISK, str(path)], capture_output=True, text=True, check=True
    )
    code, last, pending = done.stdout.split()
    assert code == "DISK_FULL"
    assert int(last) == int(pending) > 0
    with make_outbox(tmp_path) as outbox:
        assert [row.sequence for row in rows_of(outbox)] == list(range(1, int(last) + 1))


def test_a_full_disk_at_the_start_asks_for_room_and_not_to_move_undelivered_events_away(
    tmp_path: Path,
) -> None:
    path = tmp_path / "outbox.sqlite3"
    done = subprocess.run(
        [sys.executable, "-c", NO_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert "make room" in done.stdout
    assert "move it away" not in done.stdout


def test_an_end_and_a_verdict_find_room_in_the_reserve_of_a_full_disk(
    outbox: Outbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = tmp_path / "outbox.sqlite3.reserve"
    assert reserve.stat().st_size >= 1 << 20
    # A page limit makes SQLite itself answer that the disk is full, until the reserve is given up.
    outbox._db.execute("PRAGMA max_page_count = 20")
    unlink = Path.unlink

    def make_room(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        outbox._db.execute("PRAGMA max_page_count = 1000")

    def fill() -> None:
        for _ in range(1_000):
            outbox.append(FIRST, make_logs(5))

    monkeypatch.setattr(Path, "unlink", make_room)
    with pytest.raises(Transient, match="is full") as raised:
        fill()
    assert raised.value.code == "DISK_FULL"
    last = outbox.pending()
    failed = RunFailed(code="DISK_FULL", message="no room", traceback="t" * 20_000)
    assert outbox.append_end(FIRST, failed, end_of(failed)).attempt.last == last + 1
    assert not reserve.exists()
    assert [row.sequence for row in rows_of(outbox)] == list(range(1, last + 2))
    outbox.confirm(rows_of(outbox))
    assert reserve.exists(), "the reserve comes back when the outbox is empty"


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    "write",
    [
        lambda outbox: outbox.replace_refused(rows_of(outbox)[0], "odd", "it is odd"),
        lambda outbox: outbox.confirm(rows_of(outbox)),
        lambda outbox: outbox.abandon(FIRST),
    ],
    ids=["refused", "confirmed", "abandoned"],
)
def test_what_is_known_about_an_attempt_finds_room_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Outbox], None], is_there: bool
) -> None:
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox)
        outbox.append(FIRST, make_logs(1))
        reserve = tmp_path / "outbox.sqlite3.reserve"
        if not is_there:
            reserve.unlink()  # somebody looked for room
        tried: list[bool] = []
        commit = outbox_module.commit

        def full_at_first(db: sqlite3.Connection, step: Callable[[sqlite3.Connection], Any]) -> Any:
            tried.append(reserve.exists())
            if len(tried) == 1:
                raise Transient("DISK_FULL", "the disk takes no more")
            return commit(db, step)

        monkeypatch.setattr(outbox_module, "commit", full_at_first)
        write(outbox)
        assert tried == [is_there, False]


def test_a_new_attempt_needs_the_reserve(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reserve = tmp_path / "outbox.sqlite3.reserve"
    reserve.mkdir()  # in the way
    with make_outbox(tmp_path) as outbox:
        assert "outbox.no_reserve" in caplog.messages
        with pytest.raises(Transient, match=re.escape(f"the disk of {tmp_path} has no room")) as raised:
            outbox.check_room()
        assert raised.value.code == "DISK_FULL"
        reserve.rmdir()
        outbox.check_room()
        assert reserve.stat().st_size == 1 << 20


def test_what_waits_is_counted_for_one_run_or_for_all(outbox: Outbox) -> None:
    make_attempt(outbox, run_id=OTHER)
    outbox.append(FIRST, make_logs(2))
    outbox.append(AttemptId(OTHER, 1), make_logs(3))
    assert (outbox.pending(), outbox.pending(RUN_ID), outbox.pending(OTHER)) == (5, 2, 3)
    assert outbox.pending("01K00000000000000000000009") == 0


def test_two_workers_cannot_share_a_data_directory(outbox: Outbox, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another worker uses"):
        make_outbox(tmp_path)


def test_a_file_that_is_no_outbox_is_a_configuration_error_that_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite3"
    path.write_bytes(b"somebody's diary" * 1_000)
    with pytest.raises(ConfigError, match="move it away"):
        make_outbox(tmp_path)
    assert path.read_bytes().startswith(b"somebody's diary")
    path.unlink()
    make_outbox(tmp_path).close()


def test_the_spool_of_an_earlier_version_is_taken_over_with_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    with Outbox(path, clock=ManualClock(), ids=SeededIds()) as earlier:
        earlier.open_attempt(AttemptId("run", 1), token="t", source="//s", collection="runs")
        earlier.append(AttemptId("run", 1), [RunStarted()])
    db = sqlite3.connect(path)
    db.executescript(
        "ALTER TABLE attempts DROP COLUMN traceparent; ALTER TABLE attempts DROP COLUMN root;"
        " PRAGMA user_version = 1"
    )
    db.close()
    context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with Outbox(path, clock=ManualClock(), ids=SeededIds(7)) as outbox:
        outbox.open_attempt(
            AttemptId("run", 2), token="u", source="//s", collection="runs", traceparent=context
        )
        outbox.append(AttemptId("run", 2), [RunStarted()])
        lines = [msgspec.json.decode(row.line) for row in rows_of(outbox)]
        outbox.append(AttemptId("run", 1), [RunStarted()])
        roots = [attempt.root for attempt in outbox.unended()]
    assert [line.get("traceparent") for line in lines] == [None, context]
    assert [root is None for root in roots] == [True, False]  # nobody knows what was said before


def test_the_spool_of_another_version_is_refused(tmp_path: Path) -> None:
    make_outbox(tmp_path).close()
    db = sqlite3.connect(tmp_path / "outbox.sqlite3")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ConfigError, match="schema 99"):
        make_outbox(tmp_path)


def test_tokens_are_readable_by_the_owner_only_and_never_shown(outbox: Outbox, tmp_path: Path) -> None:
    outbox.append(FIRST, make_logs(1))
    for path in tmp_path.glob("outbox.sqlite3*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077 or path.suffix == ".reserve", path
    assert "token-1" not in repr(outbox.unended())


def test_fifty_waiting_events_or_an_end_make_a_request_due(outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(DUE_EVENTS - 1))
    assert not outbox.due.is_set()
    outbox.append(FIRST, make_logs(1))
    assert outbox.due.is_set()
    outbox.confirm(rows_of(outbox))
    outbox.due.clear()
    outbox.append_end(FIRST, RunCompleted(), End("completed"))
    assert outbox.due.is_set()


def test_threads_that_append_and_drain_at_once_leave_no_gap(outbox: Outbox) -> None:
    runs = [RUN_ID, OTHER]
    make_attempt(outbox, OTHER)
    seen: list[Row] = []
    writers = [
        threading.Thread(
            target=lambda run_id=run_id: [
                outbox.append(AttemptId(run_id, 1), make_logs(7)) for _ in range(40)
            ]
        )
        for run_id in runs
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers) or outbox.pending():
        rows = outbox.batch(13, 1 << 20)
        seen += rows
        outbox.confirm(rows)
    for run_id in runs:
        assert [row.sequence for row in seen if row.run_id == run_id] == list(range(1, 281))


@pytest.mark.parametrize("kill_after", [1, 20, 150])
def test_a_killed_worker_finds_each_acknowledged_event_exactly_once(tmp_path: Path, kill_after: int) -> None:
    path = tmp_path / "outbox.sqlite3"
    with subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(kill_after)]
        os.kill(child.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]
    with make_outbox(tmp_path) as outbox:
        sequences = [row.sequence for row in rows_of(outbox)]
        (attempt,) = outbox.unended()
    # The last transaction may have been kept without being acknowledged; none may be kept by half.
    assert sequences == list(range(1, attempt.last + 1))
    assert attempt.last in (acknowledged[-1], acknowledged[-1] + 2)


class AnyInterleaving(RuleBasedStateMachine):
    """Appends, verdicts, ends and crashes in any order, beside a model of plain lists."""

    runs = st.sampled_from([RUN_ID, OTHER])

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ids = SeededIds()
        self.outbox = make_outbox(Path(self.folder.name), ids=self.ids)
        self.waiting: list[tuple[str, int]] = []
        self.last = {RUN_ID: 0, OTHER: 0}
        self.ended: set[str] = set()

    def teardown(self) -> None:
        self.outbox.close()
        self.folder.cleanup()

    @initialize()
    def open(self) -> None:
        make_attempt(self.outbox)
        make_attempt(self.outbox, OTHER)

    @rule(run_id=runs, count=st.integers(1, 5))
    def append(self, run_id: str, count: int) -> None:
        if run_id in self.ended:
            with pytest.raises(Conflict):
                self.outbox.append(AttemptId(run_id, 1), make_logs(count))
            return
        assert self.outbox.append(AttemptId(run_id, 1), make_logs(count)) == self.last[run_id] + count
        self._expect(run_id, count)

    @rule(run_id=runs)
    def end(self, run_id: str) -> None:
        if run_id not in self.ended:
            self.outbox.append_end(AttemptId(run_id, 1), RunCompleted(), End("completed"))
            self.ended.add(run_id)
            self._expect(run_id, 1)

    @rule(data=st.data(), size=st.integers(1, 8))
    def confirm_some(self, data: st.DataObject, size: int) -> None:
        rows = self.outbox.batch(size, 1 << 20)
        safe = data.draw(st.lists(st.sampled_from(rows), unique_by=lambda row: row.id)) if rows else []
        self.outbox.confirm(safe)
        for row in safe:
            self.waiting.remove((row.run_id, row.sequence or 0))

    @rule(size=st.integers(1, 8))
    def refuse_the_last_of_a_batch(self, size: int) -> None:
        for row in self.outbox.batch(size, 1 << 20)[-1:]:
            self.outbox.replace_refused(row, "code", "why")

    @rule()
    def crash(self) -> None:
        self.outbox.close()
        self.outbox = make_outbox(Path(self.folder.name), ids=self.ids)

    @invariant()
    def nothing_unconfirmed_is_lost(self) -> None:
        rows = rows_of(self.outbox)
        by_attempt = sorted(self.waiting, key=lambda name: name[0] == OTHER)
        assert [(row.run_id, row.sequence) for row in rows] == by_attempt
        assert self.outbox.pending() == len(self.waiting)
        assert len({row.id for row in rows}) == len(rows)
        for row in rows:
            event = msgspec.json.decode(row.line)
            assert (event["id"], int(event["sequence"])) == (row.id, row.sequence)
        assert {attempt.attempt.run_id for attempt in self.outbox.unsettled()} == self.ended

    def _expect(self, run_id: str, count: int) -> None:
        first = self.last[run_id] + 1
        self.last[run_id] += count
        self.waiting += [(run_id, sequence) for sequence in range(first, first + count)]


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def copied(tmp_path: Path, *, without_last_of_log: int = 0) -> Path:
    """Return a copy of the folder of an open outbox; the tail of its write-ahead log is damaged."""
    folder = tmp_path / f"copy-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    for each in tmp_path.glob("outbox.sqlite3*"):
        (folder / each.name).write_bytes(each.read_bytes())
    if without_last_of_log:
        wal = folder / "outbox.sqlite3-wal"
        os.truncate(wal, wal.stat().st_size - without_last_of_log)
    return folder


def warnings_of(outbox: Outbox) -> list[tuple[int | None, str]]:
    found = [(row.sequence, json.loads(row.line)["data"]) for row in rows_of(outbox)]
    return [(sequence, data["message"]) for sequence, data in found if data.get("level") == "warning"]


def test_a_log_whose_damaged_tail_sqlite_drops_is_told_of_and_no_sequence_is_given_twice(
    tmp_path: Path, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    outbox.append(FIRST, make_logs(3))
    outbox.append(FIRST, make_logs(2, first=4))
    folder = copied(tmp_path, without_last_of_log=100)
    with make_outbox(folder) as damaged:
        ((sequence, words),) = warnings_of(damaged)
        assert (sequence, "events 4 to 5 of this attempt" in words) == (6, True)
        assert [row.sequence for row in rows_of(damaged)] == [1, 2, 3, 6]
        assert damaged.append(FIRST, make_logs(1)) == 7
        assert damaged.find(FIRST).root is None
    assert [each.msg for each in caplog.records if each.name == outbox_module.__name__] == ["outbox.changed"]
    caplog.clear()
    with make_outbox(folder):
        assert not caplog.records, "once"


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_older_database_under_a_newer_mark_takes_the_attempt_up_again(
    tmp_path: Path, outbox: Outbox, is_deleted: bool
) -> None:
    folder = copied(tmp_path)
    if is_deleted:
        for each in folder.iterdir():
            each.unlink()
    outbox.append_end(FIRST, RunCompleted(), End("completed"))
    outbox.mark_settled(FIRST)
    outbox.confirm(rows_of(outbox))
    second = AttemptId(RUN_ID, 2)
    make_attempt(outbox, attempt=2, token="token-2")
    outbox.append(second, make_logs(4))
    (folder / "outbox.sqlite3.mark").write_bytes((tmp_path / "outbox.sqlite3.mark").read_bytes())
    with make_outbox(folder) as older:
        ((sequence, words),) = warnings_of(older)
        assert (sequence, "events 1 to 4 of this attempt" in words) == (5, True)
        assert (older.find(second).token, older.find(second).last) == ("token-2", 5)


def test_what_was_delivered_is_no_loss(tmp_path: Path, outbox: Outbox) -> None:
    older = copied(tmp_path)
    outbox.append(FIRST, make_logs(4))
    outbox.confirm(rows_of(outbox))
    delivered = (tmp_path / "outbox.sqlite3.mark").read_bytes()
    outbox.append_end(FIRST, RunCompleted(), End("completed"))
    outbox.mark_settled(FIRST)
    outbox.confirm(rows_of(outbox))
    over = (tmp_path / "outbox.sqlite3.mark").read_bytes()
    (older / "outbox.sqlite3.mark").write_bytes(delivered)
    with make_outbox(older) as restored:
        assert not warnings_of(restored)
        assert restored.append(FIRST, make_logs(1)) == 5, "its sequences are used up all the same"
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "outbox.sqlite3.mark").write_bytes(over)
    with make_outbox(empty) as fresh:
        assert not fresh.unended()


@pytest.mark.parametrize("text", [b"", b"nonsense", b"00000000 {}\n", b"\xff" * 300])
def test_a_torn_mark_is_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "outbox.sqlite3.mark").write_bytes(text)
    with make_outbox(tmp_path) as fresh:
        make_attempt(fresh)
        assert fresh.append(FIRST, make_logs(2)) == 2
    with make_outbox(tmp_path) as again:
        assert not warnings_of(again)
        assert again.append(FIRST, make_logs(1)) == 3
    assert stat.S_IMODE((tmp_path / "outbox.sqlite3.mark").stat().st_mode) == 0o600


def test_a_mark_that_a_power_cut_tore_in_the_middle_is_none(tmp_path: Path, outbox: Outbox) -> None:
    outbox.append(FIRST, make_logs(4))
    folder = copied(tmp_path)
    mark = folder / "outbox.sqlite3.mark"
    mark.write_bytes(mark.read_bytes().replace(b'"last":4', b'"last":9'))
    with make_outbox(folder) as torn:
        assert not warnings_of(torn)
        assert torn.append(FIRST, make_logs(1)) == 5


def test_a_crash_between_the_end_of_an_attempt_and_its_mark_is_no_loss(
    tmp_path: Path, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    outbox.append_end(FIRST, RunCompleted(), End("completed"))
    before = (tmp_path / "outbox.sqlite3.mark").read_bytes()
    outbox.confirm(rows_of(outbox))
    outbox.mark_settled(FIRST)
    folder = copied(tmp_path)
    (folder / "outbox.sqlite3.mark").write_bytes(before)
    with make_outbox(folder) as restarted:
        assert (restarted.unended(), restarted.pending()) == ([], 0)
    assert not caplog.records


def test_the_mark_of_a_new_attempt_is_on_the_disk_before_its_first_event(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    synced: list[bytes] = []
    mark = tmp_path / "outbox.sqlite3.mark"
    with make_outbox(tmp_path) as fresh:
        monkeypatch.setattr(high_water_mark.os, "fsync", lambda _: synced.append(mark.read_bytes()))
        make_attempt(fresh)
        opened = list(synced)
        fresh.append(FIRST, make_logs(1))
    assert any(b'"run_id"' in each for each in opened)
