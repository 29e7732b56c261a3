"""A task over the planted engine, by real workers and real engines: its best is known before it starts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from control_plane.kinds.trial.planning import group_of
from testing.engine_double.surface import BEST, refusal, tokens_per_s
from tests.integration.command_line import podfleet
from tests.integration.conftest import Fleet, end, local_client, start_control_plane

COMMAND = (
    "{python} -P -m testing.engine_double --port {port} --model {model} --alias {alias} --name {name} "
    "--noise 0.02"
)
STILL: dict[str, Any] = {"cache": "q8", "flash": True}
SMALL: dict[str, Any] = {
    "name": "the planted engine",
    "model": {"id": "planted"},
    "base_runtime": "command",
    "command": COMMAND,
    "parameters": {**STILL, "batch": 512, "threads": [4, 12], "slots": [8, 128, 1]},
    "optimization": {
        "strategy": "grid",
        "baseline": {"threads": 4, "slots": 1},
        "max_iterations": 4,
        "prune": {"min_members": 1},
    },
    "benchmark": {
        "traffic_scenarios": "D(10,8)", "num_concurrency": [2, 4, 6, 8], "requests": 8, "warmup": 0,
    },
}  # fmt: skip


def engines(fleet: Any, pod: str = "") -> list[psutil.Process]:
    """Return the planted engines that live in folders of the pods, or of one."""
    return [
        each
        for each in psutil.process_iter(["cmdline", "cwd"])
        if "testing.engine_double" in (each.info["cmdline"] or ())
        and str(each.info["cwd"]).startswith(str(fleet.home / pod))
    ]


def started(fleet: Any, task: dict[str, Any]) -> str:
    made = fleet.client.post("/api/tasks", json=task)
    assert made.status_code == 201, made.text
    task_id = str(made.json()["id"])
    begun = fleet.client.post(f"/api/tasks/{task_id}/start")
    assert begun.status_code == 200, begun.text
    return task_id


def is_over(fleet: Any, task_id: str) -> bool:
    return bool(fleet.client.get(f"/api/tasks/{task_id}").json()["status"] != "RUNNING")


def experiments(fleet: Any, task_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fleet.client.get(f"/api/tasks/{task_id}/experiments").json()["items"]
    return found


@pytest.mark.slow("a trial that is worse goes on until it is looked at, every three seconds")
def test_a_task_finds_the_planted_best_ends_a_bad_trial_early_and_leaves_no_engine(
    fleet: Any, database: Any, until: Any
) -> None:
    fleet.start_quick_worker(PODFLEET_ENGINES="command")
    task_id = started(fleet, SMALL)
    until(lambda: engines(fleet))

    until(lambda: is_over(fleet, task_id))

    task, tried = fleet.client.get(f"/api/tasks/{task_id}").json(), experiments(fleet, task_id)
    assert [(each["parameters"], each["status"]) for each in tried] == [
        ({"threads": 4, "slots": 1}, "success"),
        ({"threads": 4, "slots": 8}, "success"),
        ({"threads": 4, "slots": 128}, "failed"),
        ({"threads": 12, "slots": 8}, "cancelled"),
    ]
    assert (task["status"], task["bestExperimentId"], task["gain"] > 0.3) == ("COMPLETED", "1-2", True)
    assert tried[2]["failure"].startswith("ENGINE_OUT_OF_MEMORY")
    assert tried[3]["failure"].startswith("pruned: tokens_out_per_s was ")
    runs = {each["_id"]: each for each in database.runs.find({"groupId": group_of(task_id)})}
    (bad,) = (runs[each["id"]] for each in tried[3]["runs"])
    assert (bad["status"], bad["failures"]["app"], bad["attempt"]) == ("CANCELED", 0, 1)
    rows = Counter(each["runId"] for each in database.results.find({"runId": {"$in": list(runs)}}))
    assert rows[tried[1]["runs"][0]["id"]] == 4
    assert rows[bad["_id"]] >= 1, "it is judged by what it has measured, and CANCELED before it was whole"
    assert not engines(fleet)


WIDE: dict[str, Any] = {
    **SMALL,
    "parameters": {
        # the best is half as fast again as each other one: neighbours of this machine are noise, too
        "cache": "q8", "flash": [True, False], "batch": [512, 4096], "threads": [1, 4, 8],
        "slots": [1, 8, 64],
    },
    "optimization": {
        "strategy": "bayesian",
        "baseline": {"flash": True, "batch": 512, "threads": 1, "slots": 1},
        "max_iterations": 36,
        "parallel": 2,
        "confirm": {"top": 2, "repeats": 2},
    },
    "benchmark": {
        "traffic_scenarios": "D(10,8)", "num_concurrency": [4, 8], "requests": 24, "warmup": 0,
    },
    "placement": {"max_attempts": 4},
}  # fmt: skip


@pytest.mark.long("minutes of searches and kills; the test above is one search that nothing disturbs")
@pytest.mark.timeout(1800)
def test_a_search_that_is_killed_three_times_loses_no_trial_and_finds_the_planted_best(
    database_url: str, database: Any, s3: Any, tmp_path: Path, until: Any
) -> None:
    process, url = start_control_plane(tmp_path, database_url, s3)
    with local_client(url, timeout=30.0) as client:
        fleet = Fleet(url, database_url, tmp_path, tmp_path / "control-plane.log", client)
        programs = [process]
        try:
            workers = [fleet.start_quick_worker(name=name, PODFLEET_ENGINES="command") for name in ("a", "b")]
            task_id = started(fleet, WIDE)
            runs = database.runs

            def measured(ended: int, pod: str) -> list[psutil.Process]:
                """Return the engine with which a pod measures a trial, when so many runs have ended."""
                if runs.count_documents({"status": {"$in": ["COMPLETED", "FAILED"]}}) < ended:
                    return []
                wanted = {"status": "RUNNING", "currentStage.name": "measure"}
                ids = [str(run["_id"]) for run in runs.find(wanted)]
                return [each for each in engines(fleet, pod) if any(it in each.info["cwd"] for it in ids)]

            until(lambda: measured(2, "b"), seconds=300)
            for each in measured(2, "b"):
                each.kill()
            until(lambda: measured(6, "a"), seconds=300)
            workers[0].kill()
            workers[0].wait()
            fleet.start_quick_worker(name="a", PODFLEET_ENGINES="command")
            until(lambda: measured(12, "b"), seconds=300)
            process.kill()
            process.wait()
            programs.append(start_control_plane(tmp_path, database_url, s3, port=int(url[-5:]))[0])
            until(lambda: is_over(fleet, task_id), seconds=900)
            until(lambda: not runs.count_documents({"logOpen": True}))

            must_have_tried_everything_once(fleet, database, task_id)
            assert runs.count_documents({"attempt": {"$gt": 1}}) >= 2, "of the worker and of the engine"
            verified = podfleet(url, "verify", "--rebuild", cwd=tmp_path, MONGODB_URL=database_url)
            assert verified.returncode == 0, verified.stdout
            assert not engines(fleet)
        finally:
            end([*fleet.workers, *programs])


def must_have_tried_everything_once(fleet: Any, database: Any, task_id: str) -> None:
    """Check every configuration against what the planted engine has to make of it."""
    task, tried = fleet.client.get(f"/api/tasks/{task_id}").json(), experiments(fleet, task_id)
    given = [tuple(sorted(each["parameters"].items())) for each in tried]
    assert (len(given), len({*given})) == (36, 36), "each configuration is one experiment"
    for each in tried:
        is_impossible = refusal({**STILL, **each["parameters"]}) is not None
        assert each["status"] == ("failed" if is_impossible else "success"), each
        assert not (is_impossible and len(each["runs"]) > 1), "what is impossible is not asked again"
    again = [each for each in tried if len(each["runs"]) > 1]
    assert {len(each["runs"]) for each in again} == {3}
    assert len(again) == 3, "two of the best, and the baseline"
    rows = Counter((each["runId"], each["attempt"]) for each in database.results.find({}))
    done = [(run["_id"], run["attempt"]) for run in database.runs.find({"status": "COMPLETED"})]
    assert {rows[each] for each in done} == {2}, "the attempt that counts made each measurement itself"
    possible = [each for each in tried if each["status"] == "success"]
    best = max(possible, key=lambda each: tokens_per_s({**STILL, **each["parameters"]}))
    assert {**STILL, **best["parameters"]} == BEST
    assert task["best"]["parameters"] == best["parameters"]
