"""The other nouns of the command line, each against a real fleet as a person would use it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.catalog import RunCompleted, RunStarted
from events.delivery.control_plane_client import bearer
from events.queue.settlement import End
from events.runtime.clock import SystemClock
from podfleet.commands.maintenance import doctor
from tests.integration.command_line import podfleet, within

pytestmark = pytest.mark.common_fleet


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_files_are_fetched_whole_with_their_digest_and_only_into_the_folder(
    fleet: Any, database: Any, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    fleet.start_worker(name="w1")
    run_id = fleet.submit(spec={"seconds": 0, "artifact_bytes": 600_000})
    (artifact,) = fleet.wait_for(run_id, "COMPLETED")["artifacts"]
    listed = within(fleet.url, "artifacts", "list", run_id)
    assert listed.stdout.splitlines()[1].split("\t")[:2] == ["probe.bin", "600000"]

    fetched = within(fleet.url, "artifacts", "get", "@latest", cwd=here)
    assert (fetched.returncode, fetched.stdout) == (0, f"{run_id}/probe.bin\n"), fetched.stderr
    assert digest(here / run_id / "probe.bin") == artifact["sha256"]
    again = within(fleet.url, "artifacts", "get", run_id, cwd=here)
    assert again.stdout == f"{run_id}/probe.bin (unchanged)\n"

    mine = here / "mine.bin"
    mine.write_text("not to be lost")
    kept = within(fleet.url, "artifacts", "get", run_id, "probe.bin", "-o", "mine.bin", cwd=here)
    assert (kept.returncode, mine.read_text()) == (1, "not to be lost")
    assert "--force" in kept.stderr
    forced = podfleet(
        fleet.url, "artifacts", "get", run_id, "probe.bin", "-o", "mine.bin", "--force", cwd=here
    )
    assert (forced.returncode, digest(mine)) == (0, artifact["sha256"])
    unknown = within(fleet.url, "artifacts", "get", run_id, "*.pdf", cwd=here)
    assert (unknown.returncode, "'*.pdf'" in unknown.stderr) == (1, True)

    database.artifacts.update_one({"runId": run_id}, {"$set": {"sha256": "0" * 64}})
    broken = within(fleet.url, "artifacts", "get", run_id, "-o", "out", cwd=tmp_path)
    assert (broken.returncode, "not those of the SHA-256 that was registered" in broken.stderr) == (1, True)
    assert list((tmp_path / "out").iterdir()) == [], "nothing half-written stays"
    stored = database.artifacts.find_one({"runId": run_id})
    database.artifacts.update_one({"runId": run_id}, {"$set": {"sha256": artifact["sha256"]}})
    database.artifacts.insert_one({**stored, "_id": f"{run_id}/a1/x", "name": "../escaped"})
    hostile = within(fleet.url, "artifacts", "get", run_id, "-o", "out", cwd=tmp_path)
    assert (hostile.returncode, hostile.stdout) == (1, "out/probe.bin\n"), hostile.stderr
    assert "'../escaped' is no relative path" in hostile.stderr
    assert "1 of 2 files could not be kept" in hostile.stderr
    assert not (tmp_path / "escaped").exists()


def test_a_hypothesis_finds_ideas_of_which_one_is_launched(fleet: Any) -> None:
    fleet.start_worker(name="w1", mode="ideation")
    order = ("hypotheses", "new", "Does dropout help?", "--idea", "Dropout improves accuracy on digits")
    proposed = within(fleet.url, *order, "--ideation", "--ideas", "2", "--watch", "--exit-status")
    assert proposed.returncode == 0, proposed.stderr
    hypothesis_id, *lines = proposed.stdout.splitlines()
    assert " COMPLETED after " in lines[-1]

    listed = within(fleet.url, "hypotheses", "list").stdout.splitlines()
    assert listed[1].split("\t")[:4] == [hypothesis_id, "Does dropout help?", "COMPLETED", "2"]
    ideas = [
        line.split("\t") for line in within(fleet.url, "hypotheses", "ideas", "@latest").stdout.splitlines()
    ]
    assert [row[:2] for row in ideas[1:]] == [["0", "true"], ["1", "false"]]
    launched = podfleet(
        fleet.url, "hypotheses", "launch", hypothesis_id[:-2], "--idea", "1", "-p", "preset=quick"
    )
    assert launched.returncode == 0, launched.stderr
    run = fleet.run(launched.stdout.strip())
    assert (run["hypothesisId"], run["spec"]["preset"]) == (hypothesis_id, "quick")
    assert run["spec"]["idea"]["Short Hypothesis"] == ideas[2][3]
    shown = within(fleet.url, "hypotheses", "show", "@latest").stdout
    assert "chosen\t1" in shown
    assert run["id"] in shown
    late = within(fleet.url, "hypotheses", "launch", hypothesis_id, "--idea", "9")
    assert (late.returncode, "no idea 9" in late.stderr) == (2, True)
    assert within(fleet.url, "hypotheses", "new", "no idea").returncode == 2


def test_a_task_is_made_shown_edited_started_copied_and_removed(fleet: Any, tmp_path: Path) -> None:
    file = tmp_path / "task.yaml"
    file.write_text("name: tune\nmodel: {id: smollm2}\nparameters: {n_parallel: [1, 2]}\n")
    said = within(fleet.url, "tasks", "estimate", "-f", str(file), "-p", "optimization.strategy=grid")
    assert said.stdout.startswith("at most 3 experiments, of 2 measurements each"), said.stderr
    made = within(fleet.url, "tasks", "create", "-f", str(file), "-p", "optimization.parallel=3")
    assert made.returncode == 0, made.stderr
    task_id, status, name = made.stdout.split()
    assert (status, name) == ("PENDING", "tune")
    taken = within(fleet.url, "tasks", "create", "-f", str(file))
    assert (taken.returncode, "Task 'tune' already exists" in taken.stderr) == (1, True)
    edited = within(fleet.url, "tasks", "edit", "@latest", "-p", "description=all of it")
    assert edited.returncode == 0, edited.stderr
    exported = within(fleet.url, "tasks", "export", task_id).stdout
    assert ("description: all of it" in exported, "parallel: 3" in exported) == (True, True)
    (tmp_path / "copy.yaml").write_text(exported)
    copy = within(fleet.url, "tasks", "import", str(tmp_path / "copy.yaml"), "--name", "copy").stdout.split()
    assert within(fleet.url, "tasks", "clone", copy[0], "--name", "other").returncode == 0
    assert within(fleet.url, "tasks", "delete", copy[0]).stdout == f"{copy[0]}\n"
    listed = within(fleet.url, "tasks", "list").stdout.splitlines()
    assert [line.split("\t")[1:3] for line in listed[1:]] == [["other", "PENDING"], ["tune", "PENDING"]]
    started = within(fleet.url, "tasks", "start", task_id).stdout.split()
    assert started[1] == "RUNNING"
    refused = within(fleet.url, "tasks", "edit", task_id, "-p", "name=x")
    assert (refused.returncode, "Cannot edit a running task" in refused.stderr) == (1, True)
    shown = within(fleet.url, "tasks", "show", task_id).stdout
    assert ("status\tRUNNING" in shown, "objective\tmaximize tokens_out_per_s" in shown) == (True, True)
    assert within(fleet.url, "tasks", "experiments", task_id).returncode == 0
    assert within(fleet.url, "tasks", "cancel", task_id).returncode == 0


def test_a_verdict_is_given_in_the_terminal(fleet: Any, by_hand: Any) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    hand = by_hand("runs", "probe/cpu/any")
    hand.say(RunStarted(), RunCompleted(summary="done"))
    hand.settle(End("completed"))
    fleet.wait_for(run_id, "AWAITING_HUMAN")
    assert within(fleet.url, "reviews", "list", "--ids").stdout == f"{run_id}\n"
    watched = within(fleet.url, "runs", "watch", run_id)
    assert watched.returncode == 4, "it waits for a person, which a program can tell from an end"
    assert f"{fleet.url}/runs/{run_id}" in watched.stderr
    failed = within(fleet.url, "reviews", "fail", "@latest", "-m", "the baseline was not tuned")
    assert (failed.returncode, failed.stdout) == (0, f"{run_id} HUMAN_REJECTED\n")
    assert fleet.run(run_id)["humanVerdict"]["notes"] == "the baseline was not tuned"
    assert within(fleet.url, "runs", "watch", run_id, "--exit-status", "--until-reviewed").returncode == 1
    revised = within(fleet.url, "reviews", "pass", run_id, "--revise", "-m", "it was tuned")
    assert revised.stdout == f"{run_id} HUMAN_VALIDATED\n", revised.stderr
    twice = within(fleet.url, "reviews", "pass", run_id)
    assert (twice.returncode, "409" in twice.stderr) == (1, True)


def eventually(holds: Callable[[], bool]) -> bool:
    """Say whether something comes to hold within a minute."""
    clock = SystemClock()
    until_s = clock.monotonic_s() + 60.0
    while not holds() and clock.monotonic_s() < until_s:
        clock.wait(threading.Event(), 0.2)
    return holds()


def test_a_sweep_is_made_shown_paused_resumed_canceled_and_run_again(fleet: Any) -> None:
    sweep = ("sweep", "--kind", "probe", "-p", "seconds=1,2", "-p", "events=5", "-p", "end=completed,hang")
    name = within(fleet.url, *sweep, "--name", "grid", "--parallel", "2", "-l", "team=vision").stdout.strip()
    assert name == "grid"
    taken = within(fleet.url, *sweep, "--name", "grid")
    assert (taken.returncode, "--name" in taken.stderr) == (1, True)
    nothing = within(fleet.url, "sweep", "--kind", "probe", "-p", "seconds=1")
    assert (nothing.returncode, "no parameter varies" in nothing.stderr) == (2, True)
    wrong = within(fleet.url, "sweep", "--kind", "probe", "-p", "seconds=1,-1")
    assert (wrong.returncode, "row 2 of 2 (seconds=-1)" in wrong.stderr) == (2, True)
    assert within(fleet.url, "groups", "pause", "grid", "-m", "no budget").stdout == "grid PAUSED\n"
    shown = within(fleet.url, "groups", "show", "grid").stdout
    assert "no budget" in shown
    assert "of 4 submitted" in shown
    listed = within(fleet.url, "groups", "list").stdout.splitlines()
    assert listed[1].startswith("grid\tPAUSED\t1\t")
    assert within(fleet.url, "groups", "list", "--ids").stdout == "grid\n"
    assert within(fleet.url, "groups", "resume", "grid").stdout == "grid OPEN\n"
    members = ("runs", "list", "--group", "grid")
    assert eventually(lambda: within(fleet.url, *members, "--ids").stdout.count("\n") == 2)
    (newest,) = json.loads(within(fleet.url, *members, "-n", "1", "--json").stdout)
    assert (newest["slot"], newest["labels"]) == (1, {"team": "vision"})
    assert within(fleet.url, "groups", "cancel", "grid").stdout == "grid CANCELING\n"
    assert eventually(lambda: "grid\tCANCELED" in within(fleet.url, "groups", "list").stdout)
    assert within(fleet.url, "groups", "again", "grid").stdout == "grid OPEN\n"
    gone = within(fleet.url, "groups", "show", "none")
    assert (gone.returncode, "`podfleet groups list`" in gone.stderr) == (1, True)


def test_a_board_is_shown_saved_listed_and_removed(fleet: Any, database: Any) -> None:
    for x, value in ((0, 5.0), (0, 4.0), (1, 2.5)):
        run_id = fleet.submit(spec={"x": x}, labels={"team": "vision"})
        ended = {"status": "COMPLETED", "summary": {"value": value}, "summaryAttempt": 1}
        database.runs.update_one({"_id": run_id}, {"$set": ended})
    asked = ("--kind", "probe", "--rows", "spec.x", "--columns", "label.team", "--cell", "value")
    shown = within(fleet.url, "boards", "show", *asked, "--show", "best")
    assert shown.stdout.splitlines() == ["spec.x\tlabel.team=vision", "0\t4.0", "1\t2.5"], shown.stderr
    assert within(fleet.url, "boards", "save", "probes", *asked, "--show", "mean").returncode == 0
    mean = within(fleet.url, "boards", "show", "probes").stdout.splitlines()
    assert mean[1].startswith("0\t4.5 (-1.85")
    assert mean[2] == "1\t2.5"
    assert within(fleet.url, "boards", "list", "--ids").stdout == "probes\n"
    assert within(fleet.url, "boards", "remove", "probes").returncode == 0
    assert within(fleet.url, "boards", "show", "probes").returncode == 1
    wrong = within(fleet.url, "boards", "show", *asked[:-2])
    assert (wrong.returncode, "--cell" in wrong.stderr) == (2, True)
    columns = ("--columns", "spec.x,summary.value", "--sort", "-summary.value")
    listed = within(fleet.url, "runs", "list", "--kind", "probe", *columns).stdout.splitlines()
    assert [line.split("\t")[-2:] for line in listed[1:]] == [["0", "5"], ["0", "4"], ["1", "2.5"]]


def test_a_schedule_is_previewed_made_paused_run_and_removed(fleet: Any) -> None:
    preview = within(fleet.url, "schedules", "preview", "30 3 * * 1-5", "-z", "Europe/Berlin", "-n", "7")
    meaning, _, *slots = preview.stdout.splitlines()
    assert "Monday through Friday" in meaning
    assert len(slots) == 7
    assert all("T03:30:00+0" in slot for slot in slots)
    wrong = within(fleet.url, "schedules", "preview", "30 3 * *")
    assert (wrong.returncode, "five fields" in wrong.stderr) == (2, True)

    add = (
        "schedules",
        "add",
        "nightly",
        "0 0 29 2 *",
        "--kind",
        "probe",
        "-p",
        "seconds=0",
        "-l",
        "team=vision",
    )
    assert within(fleet.url, *add).stdout.startswith("nightly fires next 20")
    assert within(fleet.url, *add).returncode == 1
    assert within(fleet.url, "schedules", "pause", "nightly", "-m", "no budget").stdout == "nightly rests\n"
    shown = within(fleet.url, "schedules", "show", "nightly").stdout
    assert "no budget" in shown
    assert within(fleet.url, "schedules", "resume", "nightly").stdout.startswith("nightly fires next 20")
    run = fleet.run(within(fleet.url, "schedules", "run", "nightly").stdout.strip())
    assert (run["kind"], run["labels"]["team"]) == ("probe", "vision")
    queue = within(fleet.url, "queue").stdout.splitlines()
    assert [line.split("\t")[:2] for line in queue] == [["CLASS", "WAITING"], ["probe/cpu/any", "1"]]
    assert within(fleet.url, "schedules", "remove", "nightly").returncode == 0
    gone = within(fleet.url, "schedules", "show", "nightly")
    assert (gone.returncode, "`podfleet schedules list`" in gone.stderr) == (1, True)


def test_runs_are_compared_and_opened(fleet: Any, tmp_path: Path) -> None:
    first, second = (fleet.submit(spec={"seconds": seconds}) for seconds in (1, 2))
    compared = within(fleet.url, "runs", "compare", first, second)
    assert compared.stdout.splitlines() == [f"FIELD\t{first}\t{second}", "spec.seconds\t1\t2"]
    assert within(fleet.url, "runs", "compare", first).returncode == 2
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    opened = podfleet(fleet.url, "runs", "open", "@latest", BROWSER=str(browser))
    assert (opened.returncode, opened.stdout) == (0, f"{fleet.url}/runs/{second}\n"), opened.stderr
    assert (tmp_path / "opened").read_text().strip() == f"{fleet.url}/runs/{second}"


def test_the_doctor_says_what_is_well_and_what_to_do(
    fleet: Any, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(doctor, "PATIENCE_S", 60.0)  # a loaded machine is not ill
        well = within(fleet.url, "doctor", "--json", MONGODB_URL=fleet.database_url, **s3.environment)
    found = {each["check"]: each for each in json.loads(well.stdout)}
    assert well.returncode == 0, well.stdout
    asked = ("python", "mongodb", "storage", "control plane", "clock")
    assert {name: found[name]["state"] for name in asked} == dict.fromkeys(asked, "ok")
    (tmp_path / ".env").write_text("MONGODB_URL=mongodb://user:sesame@127.0.0.1:1/x\n")
    ill = within("http://127.0.0.1:1", "doctor", cwd=tmp_path)
    states = {line.split("\t")[0]: line.split("\t")[1:] for line in ill.stdout.splitlines()}
    assert ill.returncode == 1
    assert (states["mongodb"][0], states["control plane"][0]) == ("failed", "failed")
    assert "podfleet up" in states["control plane"][2]
    shown = within(fleet.url, "config", "show", cwd=tmp_path)
    assert f"CONTROL_PLANE_URL\t{fleet.url}\tenvironment" in shown.stdout
    assert f"MONGODB_URL\tmongodb://user:********@127.0.0.1:1/x\t{tmp_path}/.env" in shown.stdout
    assert "sesame" not in shown.stdout + ill.stdout + ill.stderr
    assert within(fleet.url, "version").stdout.strip() == "0.1.0"


def test_a_key_that_is_missing_is_asked_for(keyed_url: str) -> None:
    refused = within(keyed_url, "doctor", "--json")
    failed = [each["check"] for each in json.loads(refused.stdout) if each["state"] == "failed"]
    assert (refused.returncode, failed) == (1, ["key"])
    wanted = {"kind": "pod", "name": "a pod's"}
    made = httpx.post(
        f"{keyed_url}/api/keys", json=wanted, headers=bearer("a-key-of-the-test"), trust_env=False
    )
    on_a_pod = within(keyed_url, "doctor", "--json", PODFLEET_API_KEY=made.json()["key"])
    states = {each["check"]: each["state"] for each in json.loads(on_a_pod.stdout)}
    assert (on_a_pod.returncode, states["key"]) == (0, "note")
    assert within(keyed_url, "runs", "list", PODFLEET_API_KEY="a-key-of-the-test").returncode == 0
