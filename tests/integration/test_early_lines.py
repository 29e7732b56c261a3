"""Nobody but its holder gives an attempt numbers, and no number makes anybody count to it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from control_plane.log.byte_budgets import Budgets
from control_plane.log.ingest import AHEAD_MAX, Sender
from control_plane.store.log import unclaimed_lines
from control_plane.store.log.byte_counts import ByteCounts
from control_plane.store.log.events import CONTROL_PLANE_SOURCE
from control_plane.store.log.unclaimed_lines import UnclaimedStore
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Verifier
from events import catalog as c
from events.codec import SEQUENCE_MAX, decode_ndjson
from events.queue.journal import creation
from events.queue.settlement import End
from events.runtime.clock import SystemIds
from events.text.attempt_id import AttemptId
from tests.integration.test_core import ADMIN, Core, in_core, line, new_run, whole_log


def holder(run_id: str, attempt: int = 1) -> Sender:
    return Sender(f"{run_id}/a{attempt}", may_decide=False, attempt=AttemptId(run_id, attempt))


def strange(run_id: str, *sequences: int, attempt: int = 1) -> list[bytes]:
    return [
        line(run_id, n, c.RunLog(message="a stranger's"), attempt=attempt, name=f"strange {n}")
        for n in sequences
    ]


def codes(answer: Any) -> list[tuple[int, str]]:
    return [(each.line, each.code) for each in answer.rejected]


@pytest.mark.parametrize("is_known", [True, False], ids=["waiting run", "unknown run"])
def test_what_strangers_tell_of_an_unclaimed_attempt_never_meets_its_worker(
    emptied_url: str, is_known: bool
) -> None:
    async def scenario(core: Core) -> None:
        run_id = SystemIds().ulid()
        if is_known:
            await core.submit()
            run_id = (await core.db.runs.find_one())["_id"]
        sent = strange(run_id, 1, 2, 5)
        answer = await core.send(*sent, sender=ADMIN)
        assert (answer.accepted, answer.acked_through) == (3, {f"{run_id}/1": 0})
        again = await core.send(*sent, sent[0].replace(b"stranger's", b"liar's"), sender=ADMIN)
        assert (again.accepted, again.duplicates, codes(again)) == (0, 3, [(4, "conflict")])
        if not is_known:
            await core.db.runs.update_one({"_id": run_id}, creation(new_run(), by="test"), upsert=True)
        await core.catch_up.run_once()
        assert await core.db.events.count_documents({"sequence": {"$exists": True}}) == 0
        assert await core.db.early_lines.count_documents({}) == 3
        claim = await core.claim()
        late = await core.send(*strange(run_id, 3), sender=ADMIN)
        assert codes(late) == [(1, "forbidden")]
        log = whole_log(run_id)
        assert (await core.send(*log, sender=holder(run_id))).accepted == 7
        await core.settle(claim, End("completed"), 7)
        for _ in range(2):
            await core.catch_up.run_once()
        assert (await core.run(run_id))["startedAt"] is not None
        letters = await core.db.dead_letters.find({"code": "unclaimed"}).to_list()
        assert sorted(each["sequence"] for each in letters) == [1, 2, 5]
        assert await core.db.early_lines.count_documents({}) == 0
        notices = await core.db.events.find({"data.message": {"$regex": "before anybody had"}}).to_list()
        assert [(each["runId"], each["data"]["level"]) for each in notices] == [(run_id, "warn")]
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_a_line_that_arrives_while_the_claim_is_made_is_never_in_the_log(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        keep = UnclaimedStore.keep

        async def claimed_first(store: UnclaimedStore, lines: Any) -> set[int]:
            await core.claim()
            await core.catch_up.run_once()  # another replica looks in between
            return await keep(store, lines)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(UnclaimedStore, "keep", claimed_first)
            assert (await core.send(*strange(run_id, 1, 2), sender=ADMIN)).accepted == 2
        assert (await core.send(*whole_log(run_id)[:3], sender=holder(run_id))).acked_through == {
            f"{run_id}/1": 3
        }
        assert await core.catch_up.unclaimed.run_once() == 2
        assert await core.db.dead_letters.count_documents({"code": "unclaimed"}) == 2
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_only_so_many_lines_wait_for_claims(emptied_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(core: Core) -> None:
        monkeypatch.setattr(unclaimed_lines, "EARLY_MAX", 3)
        run_id = await core.submit()
        assert (await core.send(*strange(run_id, 1, 2), sender=ADMIN)).accepted == 2
        full = await core.send(*strange(run_id, 3, 4), sender=ADMIN)
        assert codes(full) == [(1, "unclaimed"), (2, "unclaimed")]
        unknown = await core.send(*strange("nobody", 1, 2), sender=ADMIN)
        assert codes(unknown) == [(1, "unknown_run"), (2, "unknown_run")]
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_a_sequence_far_ahead_is_refused_alone(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        log = whole_log(run_id)
        far = strange(
            run_id, AHEAD_MAX + 1, AHEAD_MAX, 1 + 2 * AHEAD_MAX, SEQUENCE_MAX, SEQUENCE_MAX + 1, 2**53
        )
        answer = await core.send(*log[:2], *far, sender=holder(run_id))
        assert (answer.accepted, answer.acked_through) == (3, {f"{run_id}/1": 2})
        assert codes(answer) == [
            (3, "far_ahead"), (5, "far_ahead"), (6, "far_ahead"), (7, "bad_attribute"), (8, "bad_attribute"),
        ]  # fmt: skip
        assert "10,000,000 beyond 0" in answer.rejected[0].message
        # What is known by now is the highest that is stored, and the cursor of the attempt.
        answer = await core.send(
            *strange(run_id, 2 * AHEAD_MAX, 2 * AHEAD_MAX + 1), *log[2:], sender=holder(run_id)
        )
        assert (answer.accepted, codes(answer)) == (6, [(2, "far_ahead")])
        assert (await core.run(run_id))["lastEventSeq"] == 7
        findings = await core_findings(core, run_id)
        assert not [each for each in findings if "wrong-refusal" in each], findings

    in_core(emptied_url, scenario)


def test_no_id_of_a_stranger_takes_the_place_of_the_notice_or_of_another_letter(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        notice_id = json.loads(line(run_id, None, c.RunLog(message="a stranger's"), name="early-a1"))
        squatter = json.dumps({**notice_id, "source": CONTROL_PLANE_SOURCE}).encode()
        assert (await core.send(squatter, sender=ADMIN)).accepted == 1
        for attempt in (1, 2):  # under one id each time
            sent = line(run_id, 1, c.RunLog(message="a stranger's"), attempt=attempt, name="strange")
            assert (await core.send(sent, sender=ADMIN)).accepted == 1
            await core.db.runs.update_one({"_id": run_id}, {"$set": {"attempt": attempt}})
            await core.catch_up.unclaimed.run_once()
        letters = await core.db.dead_letters.find({"code": "unclaimed"}).to_list()
        assert sorted(each["attempt"] for each in letters) == [1, 2]
        notices = await core.db.events.find({"data.message": {"$regex": "before anybody had"}}).to_list()
        assert sorted(each["attempt"] for each in notices) == [1, 2]

    in_core(emptied_url, scenario)


def test_an_audit_knows_why_an_early_line_contradicts_another(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        (sent,) = strange(run_id, 1)
        answer = await core.send(sent, sent.replace(b"stranger's", b"liar's"), sender=ADMIN)
        assert codes(answer) == [(2, "conflict")]
        waiting = await core_findings(core, run_id)
        await core.claim()
        await core.catch_up.unclaimed.run_once()
        claimed = await core_findings(core, run_id)
        assert not [each for each in waiting + claimed if "wrong-refusal" in each]

    in_core(emptied_url, scenario)


def test_an_audit_knows_the_events_without_a_number_that_others_contradict(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        first, again = (line(run_id, None, c.RunLog(message=word), name="one id") for word in ("a", "b"))
        answer = await core.send(first, sender=ADMIN)
        assert (answer.accepted, codes(answer)) == (1, [])
        assert codes(await core.send(again, sender=ADMIN)) == [(1, "conflict")]
        findings = await core_findings(core, run_id)
        assert not [each for each in findings if "wrong-refusal" in each], findings

    in_core(emptied_url, scenario)


def test_what_strangers_say_of_an_attempt_leaves_its_budget_to_its_holder(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        ingestor = replace(core.ingestor, budgets=Budgets(ByteCounts(core.db), core.clock, 50_000))
        run_id = await core.submit()
        await core.claim()
        for number, expected in ((1, []), (2, []), (3, ["over_budget"])):
            sent_line = line(run_id, None, c.RunLog(message="x" * 30_000), name=f"strange {number}")
            answer = await ingestor.take(decode_ndjson(sent_line), ADMIN)
            assert [code for _, code in codes(answer)] == expected
        answer = await ingestor.take(decode_ndjson(b"\n".join(whole_log(run_id))), holder(run_id))
        assert codes(answer) == []

    in_core(emptied_url, scenario)


async def core_findings(core: Core, run_id: str) -> list[str]:

    await core.sweeper.run_once()
    found = await Verifier(VerifyReads(core.db)).examine("runs", run_id)
    return [f"{each.invariant}: {each.message}" for each in found]
