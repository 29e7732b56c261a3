"""Rows of results on a real MongoDB: retries, pages along an index, damage that is found and mended."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from control_plane.model.projection import result_id
from control_plane.reads.results.filters import chosen
from control_plane.store.results import ResultReads, WantedRows
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Verifier
from events import catalog as c
from events.kinds.declaring.fact import Fact
from events.kinds.probe import ROWS
from events.kinds.results import Value, is_of
from events.queue.settlement import End
from tests.integration.test_core import Core, in_core, line
from tests.integration.test_rebuild import rebuilt

COLUMNS = ("key", "number", "value", "group", "is_even")


def row(key: str, **values: Any) -> c.ResultRecorded:
    return c.ResultRecorded(set="rows", key=key, values=values, status="done")


async def say(core: Core, run_id: str, facts: Sequence[Fact], attempt: int = 1, after: int = 0) -> None:
    for start in range(0, len(facts), 400):
        part = enumerate(facts[start : start + 400], after + start + 1)
        answer = await core.send(*[line(run_id, number, fact, attempt=attempt) for number, fact in part])
        assert answer.rejected == []


async def running(core: Core, facts: Sequence[Fact]) -> str:
    run_id = await core.submit()
    await core.claim()
    await say(core, run_id, [c.RunStarted(), *facts])
    return run_id


async def rows_of(core: Core, run_id: str) -> dict[str, Any]:
    reads = ResultReads(core.db)
    attempt = await reads.newest_attempt(run_id)
    assert attempt is not None
    page = await reads.page(WantedRows(run_id=run_id, attempt=attempt, set="rows", limit=200))
    return {each["key"]: each["values"] for each in page.rows}


def test_a_retried_attempt_takes_the_place_of_the_rows_and_numbers_before_it(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        first = [row("a", value=1), row("b", value=1), row("a", value=2)]
        run_id = await core.submit()
        claim = await core.claim()
        await say(core, run_id, [c.RunStarted(), *first, c.RunSummarized(values={"value": 1, "old": 1})])
        assert await rows_of(core, run_id) == {"a": {"value": 2}, "b": {"value": 1}}
        await core.settle(claim, End("preempted"), 5)
        again = await core.claim("token-2")
        assert again.attempt == 2
        await say(core, run_id, [c.RunStarted()], 2)
        assert len(await rows_of(core, run_id)) == 2, "until it says one itself"
        assert (await core.run(run_id))["summary"] == {"value": 1, "old": 1}
        second = [row("b", value=3), c.RunSummarized(values={"value": 2}), c.RunSummarized(values={"x": "y"})]
        await say(core, run_id, second, 2, after=1)
        assert await rows_of(core, run_id) == {"b": {"value": 3}}
        run = await core.run(run_id)
        assert (run["summary"], run["summaryAttempt"]) == ({"value": 2, "x": "y"}, 2)
        await say(core, run_id, [c.RunStarted(), *first], 1)  # sent once more
        assert await rows_of(core, run_id) == {"b": {"value": 3}}
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_altered_and_missing_rows_and_an_altered_summary_are_found_and_made_anew(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        facts = [row(f"k{number:03}", value=number, group=f"g{number % 3}") for number in range(120)]
        run_id = await running(core, [*facts, c.RunSummarized(values={"value": 1})])
        await core.must_equal_its_log(run_id)
        sound = await core.db.results.find({"runId": run_id}).sort("_id").to_list()
        run = await core.run(run_id)
        one, other = result_id(run_id, 1, "rows", "k000"), result_id(run_id, 1, "rows", "k001")
        await core.db.results.update_one({"_id": one}, {"$set": {"values.value": 9, "color": "blue"}})
        await core.db.results.delete_one({"_id": other})
        await core.db.results.update_one(
            {"_id": result_id(run_id, 1, "rows", "k002")}, {"$set": {"seq": 999}, "$unset": {"c0": ""}}
        )
        await core.db.results.insert_one({"_id": "made up", "runId": run_id, "attempt": 1, "seq": 3})
        await core.db.runs.update_one({"_id": run_id}, {"$set": {"summary": {"value": 7}}})
        found = await Verifier(VerifyReads(core.db)).examine("runs", run_id)
        words = " ".join(each.message for each in found)
        for expected in ("value': 9", f"{other} is not stored", "made up is stored", "summary"):
            assert expected in words
        done = await rebuilt(core, run_id)
        assert done.left == []
        assert await core.db.results.find({"runId": run_id}).sort("_id").to_list() == sound
        assert (await core.run(run_id))["summary"] == run["summary"]
        await core.must_equal_its_log(run_id)
        assert (await rebuilt(core, run_id)).done == []
        await core.db.results.insert_one({"_id": "orphan", "runId": "nobody", "attempt": 1, "seq": 3})
        orphans = [each async for each in VerifyReads(core.db).orphans()]
        assert ("results", "nobody") in orphans

    in_core(emptied_url, scenario)


def made(chance: random.Random, number: int) -> c.ResultRecorded:
    values: dict[str, Value] = {
        "number": number,
        "value": chance.choice([0.5, 1, 2.25, "text", None]),
        "group": chance.choice(["a", "b", "ß", "", None]),
        "is_even": chance.choice([True, False, None]),
    }
    told = {name: value for name, value in values.items() if chance.random() < 0.9}
    return row(f"k{number:03}", **told)


def in_order(rows: Sequence[c.ResultRecorded], name: str, is_descending: bool) -> list[str]:
    """Return the keys as a reader expects them: those without a value last, whatever the direction."""
    column = ROWS.column(name)

    def value(each: c.ResultRecorded) -> Any:
        found = each.key if column is None else each.values.get(name)
        return found if column is None or found is None or is_of(column, found) else None

    with_value = [each for each in rows if value(each) is not None]
    with_value.sort(key=lambda each: (value(each), each.key))
    without = sorted(each.key for each in rows if value(each) is None)
    return [*[each.key for each in (reversed(with_value) if is_descending else with_value)], *without]


async def read_all(
    core: Core, run_id: str, sort: str | None, filters: Sequence[str], limit: int
) -> list[str]:
    how = chosen(ROWS, sort, filters, None)
    keys: list[str] = []
    place = None
    for _ in range(100):
        page = await ResultReads(core.db).page(
            WantedRows(
                run_id=run_id, attempt=1, set="rows", sorted_by=how.sorted_by, residual=how.residual,
                is_descending=how.is_descending, after=place, limit=limit,
            )
        )  # fmt: skip
        keys += [each["key"] for each in page.rows]
        place = page.stopped_at
        if place is None:
            return keys
    raise AssertionError("it never ends")


def test_pages_hold_every_row_once_in_order_and_every_filter_its_rows(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        chance = random.Random(5)
        rows = [made(chance, number) for number in range(90)]
        shuffled = [*rows]
        chance.shuffle(shuffled)
        run_id = await running(core, shuffled)
        for limit in (1, 7, 90, 200):
            for name in COLUMNS if limit > 1 else ("value",):
                for sign in ("", "-"):
                    expected = in_order(rows, name, is_descending=bool(sign))
                    assert await read_all(core, run_id, f"{sign}{name}", [], limit) == expected
        wanted: list[tuple[str, Any]] = [
            ("number>=10", lambda each: (each.values.get("number") or 0) >= 10),
            ("value=1", lambda each: each.values.get("value") == 1),
            ("value!=1", lambda each: each.values.get("value") not in (1, None)),
            ("value=null", lambda each: each.values.get("value") is None),
            ("group=a", lambda each: each.values.get("group") == "a"),
            ("is_even=true", lambda each: each.values.get("is_even") is True),
            ("status=done", lambda each: True),
            ("key=k007", lambda each: each.key == "k007"),
        ]
        for text, holds in wanted:
            expected = sorted(each.key for each in rows if holds(each))
            for sort in (None, "key", "-value", "group"):
                assert sorted(await read_all(core, run_id, sort, [text], 7)) == expected, (text, sort)
        both = await read_all(core, run_id, "-number", ["number>3", "number<=20", "number<15"], 4)
        assert both == [each.key for each in reversed(rows) if 3 < (each.values.get("number") or 0) < 15]
        assert await read_all(core, run_id, None, ["number=1", "number=2"], 4) == []

    in_core(emptied_url, scenario)


@pytest.mark.parametrize("sort", ["key", "-value", "group", "is_even"])
def test_a_page_looks_at_about_as_many_keys_as_it_holds_rows_wherever_it_begins(
    emptied_url: str, sort: str
) -> None:
    async def scenario(core: Core) -> None:
        rows = [row(f"k{n:04}", value=n % 7, group="same", is_even=n % 2 == 0) for n in range(1_500)]
        run_id = await running(core, rows)
        how = chosen(ROWS, sort, [], None)
        reads, place = ResultReads(core.db), None
        for number in range(8):
            wanted = WantedRows(
                run_id=run_id, attempt=1, set="rows", sorted_by=how.sorted_by,
                is_descending=how.is_descending, after=place, limit=150,
            )  # fmt: skip
            if number in (0, 7):
                await core.db.command("profile", 2)
            place = (await reads.page(wanted)).stopped_at
            await core.db.command("profile", 0)
        noted = [each async for each in core.db["system.profile"].find({"ns": f"{core.db.name}.results"})]
        await core.db["system.profile"].drop()
        finds = [each for each in noted if each.get("command", {}).get("find") == "results"]
        assert len(finds) >= 2
        assert all(not each.get("hasSortStage") for each in finds)
        assert sum(each["keysExamined"] for each in finds) <= 2 * (2 * 150 + 10)

    in_core(emptied_url, scenario)
