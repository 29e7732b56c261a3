"""Studies on a real MongoDB: what runs again, two goals, budgets, and what their pages tell of it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from control_plane.model.groups.study import Study, study_of
from control_plane.model.groups.trials import Outcome
from control_plane.runs.groups.advancer import Advancer
from control_plane.runs.groups.proposer import Proposer
from control_plane.runs.submission import Submitter
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.submissions import Submissions
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Verifier
from events.kinds import KINDS
from tests.integration.dying import Died, DiesAt
from tests.integration.test_groups import Replica, asking, replicas
from tests.integration.test_pruning import measure, succeed, work

PLAN: dict[str, Any] = {
    "kind": "study", "sampler": "random", "goal": "min:value", "max_runs": 14, "parallel": 3, "seed": 3,
    "space": {"x": {"type": "uniform", "low": -4, "high": 4}},
    "baseline": {"x": 0.0}, "baseline_every": 3, "confirm": {"top": 2, "repeats": 2},
}  # fmt: skip


STEPS = [("groups", "reserve"), ("groups", "fill"), ("queue", "put_specs"), ("queue", "enqueue_all")]


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


async def measured(replica: Replica) -> list[tuple[int, float]]:
    """Let every run that waits have measured, by what it was given; return slot and x of all of them."""
    runs = await replica.runs()
    specs = await replica.specs(runs)
    for run in runs:
        if run["status"] == "QUEUED":
            x = specs[run["_id"]]["x"]
            await succeed(replica, run, value=(x - 1) ** 2 + run["slot"] / 1_000, radius=abs(x))
    return [(run["slot"], specs[run["_id"]]["x"]) for run in runs]


async def until_closed(replica: Replica) -> list[float]:
    """Advance a group until it is closed; return x of each slot."""
    for _ in range(50):
        await replica.advance()
        slots = await measured(replica)
        if (await replica.group())["status"] in ("COMPLETED", "FAILED"):
            return [x for _, x in slots]
    raise AssertionError("it never closes")


async def test_the_baseline_and_the_best_run_again_and_the_answer_and_the_page_say_how_sure_it_is(
    database_url: str,
) -> None:
    async with replicas(database_url, 2) as (only, other), asking(only) as client:
        made = await client.post(
            "/api/groups", json={"id": "g", "run": {"kind": "probe", "spec": {}}, "plan": PLAN}
        )
        assert made.status_code == 201, made.text
        assert made.json()["study"] == {
            "state": "search", "trials": 0, "best": [], "baseline": None, "difference": None,
        }  # fmt: skip
        await other.advance()
        xs = await until_closed(only)
        assert (xs[0], xs[4], len(xs)) == (0.0, 0.0, 14)
        best, second = sorted({*xs} - {0.0}, key=lambda x: abs(x - 1))[:2]
        assert xs[8:] == [best, second, 0.0, best, second, 0.0]
        told = (await client.get("/api/groups/g")).json()["study"]
        assert (told["state"], told["trials"]) == ("over", 7)
        (first,) = told["best"]
        assert (first["values"], first["runs"], "front" in told) == ({"x": best}, 3, False)
        assert first["numbers"]["value"]["low"] < first["numbers"]["value"]["mean"]
        assert (told["baseline"]["slots"], told["baseline"]["runs"]) == ([0, 4, 10, 13], 4)
        assert told["difference"]["low"] < told["difference"]["value"] < told["difference"]["high"] < 0
        page = (await client.get("/groups/g")).text
        for words in ("The best trial", "less value than the baseline", "interval of the difference (Welch)",
                      "with the 95 % intervals", "the study is over"):  # fmt: skip
            assert words in page, words
        few = (await client.get("/api/groups/g/importance")).json()
        assert (few["trials"], few["parameters"]) == (7, [])
        assert "it takes 10 trials" in few["reason"]
        await only.add(
            "matrix", plan={"kind": "matrix", "rows": [{"seconds": 1}], "parallel": 1}, paused=True
        )
        none = await client.get("/api/groups/matrix/importance")
        assert (none.status_code, none.json()["code"]) == (422, "no_study")
        assert (await client.get("/api/groups/unknown/importance")).status_code == 404
        await only.db.groups.delete_one({"_id": "matrix"})
        auditor = Verifier(VerifyReads(only.db), second_look_s=0.0)
        kinds = {each.invariant for each in [each async for each in auditor.audit(rebuilds=False)]}
        assert not {kind for kind in kinds if kind.startswith("group")}


async def test_a_study_that_is_paused_in_its_confirmation_goes_on_with_the_same_runs(
    database_url: str,
) -> None:
    async with replicas(database_url, 2) as (only, other), asking(only) as client:
        await only.add(plan=PLAN | {"parallel": 1})
        while len(await only.runs()) < 10:  # the confirmation has the slots 8 to 13
            await only.advance()
            if len(await only.runs()) < 10:
                await measured(only)
        assert (await client.post("/api/groups/g/pause")).json()["status"] == "PAUSED"
        await measured(only)  # what a pod has begun comes to its end
        for _ in range(3):
            await only.advance()
            await other.advance()
        assert len(await only.runs()) == 10
        told = (await client.get("/api/groups/g")).json()["study"]
        assert told["state"] == "confirmation"
        assert (await client.post("/api/groups/g/resume")).json()["status"] == "OPEN"
        xs = await until_closed(other)
        best, second = sorted({*xs} - {0.0}, key=lambda x: abs(x - 1))[:2]
        assert xs[8:] == [best, second, 0.0, best, second, 0.0]


async def test_of_two_goals_the_best_are_the_front_on_the_page_and_in_the_answer(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def importance(_: Proposer, study: Study, outcomes: Sequence[Outcome]) -> dict[str, float]:
        return dict.fromkeys(study.space, 1.0)

    monkeypatch.setattr(Proposer, "importance", importance)  # its process takes seconds to start
    two = {"goal": ["min:value", "max:radius"], "baseline_every": None, "confirm": None, "max_runs": 12}
    plan = {name: value for name, value in (PLAN | two).items() if value is not None}
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        for wrong in ({"target": 1.0}, {"confirm": {}}, {"goal": ["min:value", "max:value"]},
                      {"goal": ["min:value"]}, {"goal": ["min:value", "max:no"]}):  # fmt: skip
            body = {"id": "g", "run": {"kind": "probe", "spec": {}}, "plan": plan | wrong}
            assert (await client.post("/api/groups", json=body)).status_code == 422, wrong
        body = {"id": "g", "run": {"kind": "probe", "spec": {}}, "plan": plan}
        assert (await client.post("/api/groups", json=body)).status_code == 201
        xs = await until_closed(only)
        values = [((x - 1) ** 2 + slot / 1_000, abs(x)) for slot, x in enumerate(xs)]
        front = [
            slot
            for slot, (value, radius) in enumerate(values)
            if not any((v <= value and r >= radius) for n, (v, r) in enumerate(values) if n != slot)
        ]
        told = (await client.get("/api/groups/g")).json()["study"]
        assert told["front"] == front
        assert [each["slots"] for each in told["best"]] == [[slot] for slot in front]
        assert told["difference"] is None
        shares = (await client.get("/api/groups/g/importance")).json()["parameters"]
        assert [each["name"] for each in shares] == ["x"]
        page = (await client.get("/groups/g")).text
        for words in ("Pareto front", "What decides", "100 %"):
            assert words in page, words
        assert "radius (higher is better) against value (lower is better)" in page


@pytest.mark.parametrize(("port", "step"), STEPS)
async def test_replicas_that_die_in_the_middle_of_a_study_lose_no_trial_and_run_none_twice(
    database_url: str, port: str, step: str
) -> None:
    plan = PLAN | {"parallel": 1}
    async with replicas(database_url, 1) as (only,):
        await only.add(plan=plan)
        undisturbed = await until_closed(only)
        await only.db.groups.delete_many({})
        await only.db.runs.delete_many({})
        await only.add(plan=plan)
        chance = random.Random(step)
        for _ in range(60):
            groups: Any = Groups(only.db)
            queue: Any = Submissions(only.db)
            if port == "queue":
                queue = DiesAt(queue, step, answered=chance.random() < 0.5)
            else:
                groups = DiesAt(groups, step, answered=chance.random() < 0.5)
            known = only.deps.submitter
            submitter = Submitter(known.runs, queue, known.ids, known.reads, known.groups)
            with contextlib.suppress(Died):
                await Advancer(groups, submitter, only.deps.decider).run_once()
            await only.advance()
            slots = await measured(only)
            if (await only.group())["status"] == "COMPLETED":
                break
        assert [x for _, x in slots] == undisturbed
        assert [slot for slot, _ in slots] == list(range(len(undisturbed)))


@pytest.mark.parametrize(
    ("budget", "words"),
    [({"max_seconds": 1800.0}, "the 1800 s of its round are over"), ({"max_cost_usd": 0.5}, "cost 0.60 USD")],
)
async def test_a_study_closes_when_its_budget_is_used_up(
    database_url: str, budget: dict[str, float], words: str
) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        body = {"id": "no", "run": {"kind": "probe", "spec": {}}, "plan": PLAN | {"max_cost_usd": 1.0}}
        refused = await client.post("/api/groups", json=body)
        assert (refused.status_code, "plan.max_cost_usd" in refused.text) == (422, True)
        await only.add(plan=PLAN)
        await only.advance()
        sets = {f"plan.{name}": value for name, value in budget.items()}
        since = (await only.group())["since"] - timedelta(hours=1)
        await only.db.groups.update_one(
            {"_id": "g"}, {"$set": sets | ({"since": since} if "plan.max_seconds" in sets else {})}
        )
        runs = await only.runs()
        for run, cost in zip(runs, (0.4, 0.2, float("nan")), strict=True):
            await succeed(only, run, value=1.0, radius=0.0, cost_usd=cost)
        await only.advance()
        await only.advance()
        group = await only.group()
        assert (group["status"], group["next"]) == ("COMPLETED", 3)
        assert words in group["journal"][0]["reason"]


async def test_the_baseline_and_what_runs_again_are_not_pruned(database_url: str) -> None:
    plan = {**PLAN, "max_runs": 10, "baseline_every": 1, "parallel": 9, "confirm": None,
            "prune": {"by": "min:loss", "min_members": 1}}  # fmt: skip
    async with replicas(database_url, 1) as (only,):
        await only.add(plan={name: value for name, value in plan.items() if value is not None})
        await only.advance()
        base, good, again, *bad = (await only.runs())[:5]
        assert [x for _, x in await measured_of(only, base, again)] == [0.0, 0.0]
        await measure(only, good, 1.0)
        await succeed(only, good, value=1.0, radius=0.0)
        await work(only, base, again, bad[0])
        for run in (base, again, bad[0]):
            await measure(only, run, 9.0)
        assert await only.deps.groups.pruner.run_once() == 1
        found = {run["_id"]: run["status"] for run in await only.runs()}
        assert [found[run["_id"]] for run in (base, again, bad[0])] == ["RUNNING", "RUNNING", "CANCELING"]


async def measured_of(replica: Replica, *runs: dict[str, Any]) -> list[tuple[int, float]]:
    specs = await replica.specs(list(runs))
    return [(run["slot"], specs[run["_id"]]["x"]) for run in runs]


async def test_values_that_failed_by_their_own_fault_are_told_as_impossible(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add(plan=PLAN)
        await only.advance()
        runs = await only.runs()
        for run, fault in zip(runs, ("run", "pod", None), strict=True):
            error = {"code": "X", "message": "x"} | ({"fault": fault} if fault else {})
            await only.db.runs.update_one({"_id": run["_id"]}, {"$set": {"status": "FAILED", "error": error}})
        trials = await only.deps.groups.reading.groups.trials("g", 0, study_of(PLAN))
        assert [each.is_own_fault for each in trials] == [True, False, False]


async def test_what_the_kind_refuses_is_never_submitted_and_the_journal_says_when_nothing_else_is_left(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(spec: Any) -> str | None:
        return "x is above y" if spec.x > spec.y else None

    monkeypatch.setitem(KINDS, "probe", replace(KINDS["probe"], check=check))
    axis = {"type": "uniform", "low": 0, "high": 2}
    plan = {"kind": "study", "sampler": "grid", "goal": "min:value", "max_runs": 20, "parallel": 4,
            "points": 3, "space": {"x": axis, "y": axis}}  # fmt: skip
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        run = {"kind": "probe", "spec": {}}
        never = {"x": {"type": "uniform", "low": 5, "high": 6}, "y": axis}
        refused = await client.post(
            "/api/groups", json={"id": "no", "run": run, "plan": plan | {"space": never}}
        )
        assert (refused.status_code, "x is above y" in refused.text) == (422, True)
        made = await client.post("/api/groups", json={"id": "g", "run": run, "plan": plan})
        assert made.status_code == 201, "its values are possible, and only some of their combinations are not"
        await until_closed(only)
        specs = (await only.specs(await only.runs())).values()
        assert sorted((spec["x"], spec["y"]) for spec in specs) == [
            (x, y) for x in (0, 1, 2) for y in (0, 1, 2) if x <= y
        ]
        group = await only.group()
        assert group["status"] == "COMPLETED"
        assert "3 combinations are refused, such as x=1.0, y=0.0: " in group["journal"][0]["reason"]
