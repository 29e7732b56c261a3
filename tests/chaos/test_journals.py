"""What actors leave behind can be read, also when they were killed in the middle of a line."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from events.catalog import RunCompleted, RunLog
from events.delivery.event_encoder import end_of
from events.delivery.outbox import Outbox
from events.runtime.clock import SystemIds
from events.testing import ManualClock
from events.text.attempt_id import AttemptId
from testing.chaos.records import journal, ledger
from testing.chaos.records.journal import Journal


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    writer = Journal.open(path, "pod-1", ManualClock())
    writer.note("begun", rate=1.0)
    writer.note("claim", "ok", call=1, run="01K1", attempt=2)
    writer.close()
    path.write_bytes(path.read_bytes() + b'{"at_s":1.0,"wall_s"')

    begun, claimed = journal.read(path)

    assert begun.data == {"rate": 1.0}
    assert (claimed.run, claimed.attempt, claimed.phase) == ("01K1", 2, "ok")


def test_the_ledger_keeps_what_has_left_the_outbox_and_what_was_refused(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    ledger.install(path, ManualClock(), SystemIds())
    with Outbox(path, clock=ManualClock(), ids=SystemIds()) as outbox:
        outbox.open_attempt(AttemptId("01K1", 1), token="t", source="//s", collection="runs")
        outbox.append(AttemptId("01K1", 1), [RunLog(message="one"), RunLog(message="two")])
        outbox.append_end(AttemptId("01K1", 1), RunCompleted(), end_of(RunCompleted()))
        first, second, _ = outbox.batch(10, 1 << 20)
        outbox.confirm([first])
        outbox.replace_refused(second, "conflict", "taken")
        assert [each[2] for each in ledger.waiting(path)] == [2, 3]

    given = list(ledger.given(path))

    assert [(each.sequence, each.is_refusal) for each in given] == [
        (1, False),
        (2, False),
        (3, False),
        (2, True),
    ]
    assert given[0].id == first.id


def test_an_outbox_that_a_kill_left_without_its_ledger_was_given_nothing(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    sqlite3.connect(path).close()
    assert list(ledger.given(path)) == []
    with Outbox(path, clock=ManualClock(), ids=SystemIds()) as outbox:
        assert (list(ledger.given(path)), list(ledger.waiting(path))) == ([], [])
        outbox.open_attempt(AttemptId("01K1", 1), token="t", source="//s", collection="runs")
        with pytest.raises(sqlite3.OperationalError, match="ledger"):
            list(ledger.given(path))
