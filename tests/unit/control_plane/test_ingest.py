"""Which lines a sender may send, and what is kept of those that were refused; nothing is stored here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from control_plane.log.ingest import (
    AHEAD_MAX,
    CUT,
    LETTER_BYTES_MAX,
    STRANGERS_LETTER_BYTES_MAX,
    Candidate,
    Capacity,
    Ingestor,
    Refused,
    Request,
    Sender,
)
from control_plane.log.unnumbered_events import UnnumberedEvents
from control_plane.model.run import AttemptToken
from control_plane.store.queue.runs import Found
from events import catalog as c
from events.codec import Decoded, decode_ndjson
from events.testing import EPOCH, RUN_ID, SeededIds, make_line
from events.text.attempt_id import AttemptId

NOBODY: Any = None
UNNUMBERED = UnnumberedEvents(NOBODY, NOBODY, NOBODY, NOBODY)
INGESTOR = Ingestor(NOBODY, NOBODY, NOBODY, UNNUMBERED, NOBODY, NOBODY, NOBODY, NOBODY)
CAPACITY, NO_CAPACITY = Capacity(orphans=True, unclaimed=True), Capacity(orphans=False, unclaimed=False)
FIRST, SECOND = AttemptId(RUN_ID, 1), AttemptId(RUN_ID, 2)
OF_KEY = Sender("pod", may_decide=False, key_id="k1")
OF_TOKEN = Sender("token", may_decide=False, attempt=FIRST)
ADMIN = Sender("admin", may_decide=True, key_id="k9")


class OneRun:
    """A run whose first attempt was claimed with the key `k1`, or by a pod with a database of its own."""

    attempt = 1
    last_event_seq = 5

    def __init__(self, key_id: str | None = "k1", ends_at: Any = None) -> None:
        self.token = AttemptToken(attempt=1, hash="", key_id=key_id, ends_at=ends_at)

    def token_of(self, attempt: int) -> AttemptToken | None:
        return self.token if attempt == 1 else None


def request(sender: Sender, run: OneRun | None) -> Request:
    runs: Any = {} if run is None else {RUN_ID: Found("runs", run)}  # type: ignore[arg-type]
    return Request(sender, runs, EPOCH, "P")


def line(fact: Any = None, *, sequence: int | None = 6, attempt: int = 1) -> Decoded:
    (decoded,) = decode_ndjson(
        make_line(fact or c.RunLog(message="x"), sequence=sequence, run_id=RUN_ID, attempt=attempt)
    )
    return decoded


def verdict(asked: Request, sent: Decoded, capacity: Capacity = CAPACITY) -> str:
    """Return the code of a refusal, or how the line is taken."""
    match INGESTOR._check(sent, asked, capacity):
        case Refused(code=code):
            return code
        case Candidate(is_unclaimed=is_unclaimed):
            return "apart" if is_unclaimed else "taken"


@pytest.mark.parametrize(
    ("sender", "run", "holds"),
    [
        (OF_TOKEN, None, True),
        (OF_KEY, OneRun(), True),
        (OF_KEY, OneRun("k2"), False),
        (OF_KEY, OneRun(None), False),
        (OF_KEY, None, False),
        (OF_KEY, OneRun(ends_at=EPOCH), False),
        (OF_KEY, OneRun(ends_at=EPOCH + timedelta(seconds=1)), True),
        (ADMIN, OneRun(), False),
        (Sender("root", may_decide=True), OneRun(None), False),
    ],
)
def test_an_attempt_is_held_by_whoever_claimed_it_while_its_token_lives(
    sender: Sender, run: Any, *, holds: bool
) -> None:
    assert sender.holds(FIRST, run, EPOCH) is holds
    assert not sender.holds(SECOND, run, EPOCH)
    assert not sender.holds(AttemptId("other", 1), None, EPOCH)
    assert sender.may_write(SECOND, run, EPOCH) is sender.may_decide


HEAD = 5
DECISION = c.RunCanceled()


@pytest.mark.parametrize(
    ("sender", "run", "sent", "capacity", "said"),
    [
        (OF_TOKEN, OneRun(), line(), NO_CAPACITY, "taken"),
        (OF_KEY, OneRun(), line(), NO_CAPACITY, "taken"),
        (OF_KEY, OneRun("k2"), line(), CAPACITY, "forbidden"),
        (OF_TOKEN, OneRun(), line(attempt=2), CAPACITY, "forbidden"),
        (OF_KEY, None, line(), CAPACITY, "forbidden"),
        (OF_TOKEN, None, line(), CAPACITY, "unknown_run"),
        (OF_TOKEN, OneRun(), line(sequence=HEAD + AHEAD_MAX), CAPACITY, "taken"),
        (OF_TOKEN, OneRun(), line(sequence=HEAD + AHEAD_MAX + 1), CAPACITY, "far_ahead"),
        (OF_TOKEN, OneRun(), line(sequence=None), NO_CAPACITY, "taken"),
        (OF_TOKEN, OneRun(), line(DECISION, sequence=None), CAPACITY, "forbidden"),
        (ADMIN, OneRun(), line(DECISION, sequence=None), CAPACITY, "taken"),
        (ADMIN, None, line(DECISION, sequence=None), CAPACITY, "unknown_run"),
        (ADMIN, OneRun(), line(), CAPACITY, "forbidden"),
        (ADMIN, OneRun(), line(attempt=2), CAPACITY, "apart"),
        (ADMIN, OneRun(), line(attempt=2), NO_CAPACITY, "unclaimed"),
        (ADMIN, None, line(), CAPACITY, "apart"),
        (ADMIN, None, line(), NO_CAPACITY, "unknown_run"),
        (ADMIN, None, line(sequence=None), CAPACITY, "taken"),
        (ADMIN, None, line(sequence=None), NO_CAPACITY, "unknown_run"),
    ],
)
def test_numbers_are_the_holders_decisions_an_admins_and_strangers_lines_wait_apart(
    sender: Sender, run: OneRun | None, sent: Decoded, capacity: Capacity, said: str
) -> None:
    assert verdict(request(sender, run), sent, capacity) == said


def test_what_is_far_ahead_of_the_applied_may_be_near_to_the_stored() -> None:
    asked = request(OF_TOKEN, OneRun())
    asked.heads = {FIRST: 100}
    assert verdict(asked, line(sequence=100 + AHEAD_MAX)) == "taken"
    assert verdict(asked, line(sequence=101 + AHEAD_MAX)) == "far_ahead"


@pytest.mark.parametrize(
    ("sender", "most"), [(OF_TOKEN, LETTER_BYTES_MAX), (OF_KEY, STRANGERS_LETTER_BYTES_MAX)]
)
def test_of_a_refused_line_the_beginning_is_kept_of_a_strangers_less(sender: Sender, most: int) -> None:
    asked = request(sender, OneRun("k2"))
    sent = line(c.RunLog(message="x" * 20_000))
    soon = EPOCH + timedelta(hours=1)
    for until in (None, soon):
        asked.refuse(sent, Refused(1, "e", "conflict", "no"), "L", until)
    kept, sooner = asked.letters
    assert kept["line"] == sent.raw[:most].decode() + CUT
    assert sooner["expiresAt"] == soon < kept["expiresAt"]


def accounts(sender: Sender, attempts: Sequence[AttemptId]) -> list[str]:
    asked = request(sender, OneRun())
    return [asked.account(each) for each in attempts]


def test_what_others_say_is_on_an_account_of_theirs_and_of_the_key_that_sent_it() -> None:
    assert accounts(OF_KEY, [FIRST]) == [f"{RUN_ID}/a1"]
    assert accounts(ADMIN, [FIRST, SECOND]) == [f"{RUN_ID}/a1/others", f"{RUN_ID}/a2/others"]
    assert request(ADMIN, OneRun()).key_of(FIRST) == "k9"
    assert request(OF_TOKEN, OneRun()).key_of(FIRST) == "k1"
    assert request(OF_TOKEN, None).key_of(FIRST) is None


def test_what_waits_for_a_run_that_nobody_knows_and_a_heartbeat_end_by_themselves() -> None:
    beat, said = line(c.RunHeartbeat(), sequence=None).outcome, line().outcome
    assert request(ADMIN, None).arrival(said, 1).orphan  # type: ignore[arg-type]
    assert request(ADMIN, None).arrival(said, 1).expires_at is not None  # type: ignore[arg-type]
    assert request(ADMIN, OneRun()).arrival(beat, 1).expires_at is not None  # type: ignore[arg-type]
    assert request(ADMIN, OneRun()).arrival(said, 1).expires_at is None  # type: ignore[arg-type]


class Log:
    """A log that holds events with these ids."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    async def by_ids(self, ids: Sequence[str]) -> Any:
        return {each: None for each in ids if each in self.ids}


class Full:
    """Budgets of which nothing is left, or as much as anybody wants."""

    def __init__(self, why: str | None) -> None:
        self.why = why

    async def look(self, *_: object) -> None:
        """Read nothing."""

    def refusal(self, *_: object, rows_before: int = 0) -> str | None:
        return self.why


@pytest.mark.parametrize(
    ("closed", "full", "code"), [("it is sealed", None, "sealed"), (None, "full", "over_budget")]
)
async def test_behind_a_seal_or_a_budget_only_what_is_stored_is_told_again(
    closed: str | None, full: str | None, code: str
) -> None:
    class Closed(OneRun):
        def closes(self, *_: object) -> str | None:
            return closed

    asked = request(OF_TOKEN, Closed())
    candidates = [INGESTOR._check(line(sequence=number), asked, CAPACITY) for number in (6, 7)]
    stored = candidates[0].id  # type: ignore[union-attr]
    log: Any = Log(stored)
    budgets: Any = Full(full)
    ingestor = replace(INGESTOR, events=log, budgets=budgets, ids=SeededIds())
    kept = await ingestor._possible(candidates, asked)  # type: ignore[arg-type]
    assert [each.id for each in kept] == [stored]
    assert [each.code for each in asked.answer.rejected] == [code]
    assert len(asked.letters) == 1


async def test_another_attempts_run_is_not_even_read_with_a_run_token() -> None:
    class Store:
        asked: frozenset[str] = frozenset()

        async def find(self, names: frozenset[str]) -> Any:
            Store.asked = names
            return {}

    store: Any = Store()
    ingestor = replace(INGESTOR, store=store)
    await ingestor._runs([line()], Sender("t", may_decide=False, attempt=AttemptId("other", 1)))
    assert Store.asked == frozenset()
    await ingestor._runs([line()], OF_TOKEN)
    assert Store.asked == {RUN_ID}
