"""Jobs on a real fleet: a person's folder, what its program says and leaves, and who may see what."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.runtime.clock import SystemClock
from podfleet import Client
from tests.integration.command_line import podfleet
from tests.integration.conftest import Fleet
from tests.integration.packages import source, wheel
from tests.integration.test_steering import must_agree_with_its_log

PYTHON = sys.executable
PATIENCE_S = 90.0

TRAIN = """
import json, os, pathlib, sys, time
from podfleet import run
from own import double

data = pathlib.Path(os.environ["PODFLEET_INPUTS"], "numbers", "n.txt").read_text()
begin = int(run.restored().read_text()) if run.restored() else 0
print("begins at", begin, flush=True)
for step in range(begin, 4):
    run.log({"loss": double(1) / (step + 1)}, step)
    if step == 2 and not begin:
        pathlib.Path("state.txt").write_text(str(step))
        run.checkpoint("state.txt")
        run.flush()
        print("waits", flush=True)
        time.sleep(600)
run.result("epochs", "last", {"loss": 0.5, "name": data.strip()})
run.summary({"loss": 0.5})
pathlib.Path(os.environ["PODFLEET_OUTPUT"], "model.json").write_text(json.dumps({"weights": [1, 2]}))
"""

SWEPT = """
import os, sys, time
from podfleet import run

lr, first = float(sys.argv[2]), os.environ["PODFLEET_ATTEMPT"] == "1"
for step in range(3):
    run.log({"loss": lr / (step + 1)}, step)
run.flush()
print(os.environ["NAME"], flush=True)
if (lr == 3 and first) or lr == 50:
    time.sleep(600)
run.result("epochs", "last", {"loss": lr / 3})
"""

NODES = """
import os, pathlib, socket, sys, time
from podfleet import run

rank, nodes = int(os.environ["PODFLEET_NODE_RANK"]), int(os.environ["WORLD_SIZE"])
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
begin = int(run.restored().read_text()) if run.restored() else 0
if rank == 0:
    peer = socket.create_server(at).accept()[0]
else:
    for _ in range(600):
        try:
            peer = socket.create_connection(at)
            break
        except OSError:
            time.sleep(0.1)
peer.sendall(b"%d\\n" % (rank + 1))
total = rank + 1 + int(peer.makefile().readline())
print("node", rank, "of", nodes, "sum", total, "from", begin, "at", at[0], flush=True)
if not begin:
    pathlib.Path("state.txt").write_text("1")
    run.checkpoint("state.txt")
    run.flush()
    if rank == 1:
        sys.exit("fails once")
    peer.recv(1)  # until the other one is gone
    time.sleep(600)
"""

READ = """
import os, pathlib
inputs = pathlib.Path(os.environ["PODFLEET_INPUTS"])
for path in sorted(inputs.glob("*/**/*")):
    print("read", path.relative_to(inputs), path.read_text().strip(), os.access(path.parent, os.W_OK))
"""

SPY = """
import glob, os
found = []
for name in glob.glob("/proc/[0-9]*/environ"):
    try:
        found.append(open(name, "rb").read())
    except OSError:
        pass
print("seen", [b"CANARY" in each for each in found].count(True), "of", len(found) > 0)
print("own", "CANARY" in str(dict(os.environ)))
for pattern in ("../../*", os.path.dirname(os.path.realpath(os.environ["PODFLEET_INPUTS"])) + "/../*"):
    print("others", sorted(glob.glob(pattern)))
"""


def wait_for_group(fleet: Fleet, group: str) -> dict[str, Any]:
    clock, never = SystemClock(), threading.Event()
    until_s = clock.monotonic_s() + PATIENCE_S
    while True:
        found: dict[str, Any] = fleet.client.get(f"/api/groups/{group}").raise_for_status().json()
        if found["status"] in ("COMPLETED", "FAILED", "PAUSED"):
            return found
        assert clock.monotonic_s() < until_s, found
        clock.wait(never, 0.2)


def must_go_on_after_a_pod_was_killed(fleet: Fleet, folder: Path) -> None:
    train = ("--folder", str(folder), "--env", "NAME=rate {lr}", "--", PYTHON, "train.py", "--lr", "{lr}")
    unfit = podfleet(fleet.url, "sweep", "--param", "rate=1,2", *train)
    assert (unfit.returncode, "{lr} is no parameter" in unfit.stderr) == (2, True)
    made = podfleet(fleet.url, "sweep", "--name", "rates", "--param", "lr=1,2,3", *train)
    assert (made.returncode, made.stdout) == (0, "rates\n"), made.stderr
    worker = fleet.start_quick_worker(name="first")
    with Client(fleet.url) as client:
        clock, never = SystemClock(), threading.Event()
        until_s = clock.monotonic_s() + PATIENCE_S
        while True:
            begun = [each for each in client.runs(group="rates") if "--lr 3" in str(each.title)]
            if begun and "rate 3" in lines(fleet, begun[0].id):
                break
            assert clock.monotonic_s() < until_s
            clock.wait(never, 0.2)
        os.kill(worker.pid, signal.SIGKILL)
        fleet.start_quick_worker(name="first")
        assert wait_for_group(fleet, "rates")["counts"]["succeeded"] == 3
        table = client.group_table("rates")
        assert [(each["lr"], each["loss"]) for each in table] == [(lr, lr / 3) for lr in (1, 2, 3)]
        assert [client.run(each["run_id"]).attempt for each in table] == [1, 1, 2]
        assert [each["key"] for each in client.group_table("rates", "epochs")] == ["last"] * 3
        best = client.board("job", rows="spec.command", cell="min:loss", show="best", group="rates")
        assert [cell and cell.number for cell in best.rows[0].cells] == [1 / 3]


def must_end_early_what_measures_worse(fleet: Fleet, folder: Path) -> None:
    with Client(fleet.url) as client:
        run = client.run_program("train.py", {"lr": 4.0}, folder=folder, env={"NAME": "alone"})
        spec = client.program([PYTHON, "train.py", "--lr", "{lr}"], {"lr": 1}, folder=folder)
        plan = {
            "kind": "study", "sampler": "grid", "goal": "min:loss", "parallel": 1, "max_runs": 3,
            "space": {"params.lr": {"type": "values", "values": [1, 2, 50]}},
            "prune": {"by": "min:loss", "min_members": 2, "after_step": 1},
        }  # fmt: skip
        client.add_group("search", "job", {**spec, "env": {"NAME": "{lr}"}}, plan=plan)
        assert wait_for_group(fleet, "search")["pruned"] == 1
        members = list(client.group_members("search"))
        assert [each.run.status for each in members] == ["COMPLETED", "COMPLETED", "CANCELED"]
        assert str(members[-1].pruned).startswith("loss was 16.67 at step 2, and never as good as")
        assert [each["loss"] for each in client.group_table("search")[:2]] == [1 / 3, 2 / 3]
        assert client.run(run.id).summary == {"loss": 4 / 3}
        assert client.run_table(run.id) == [{"key": "last", "status": None, "loss": 4 / 3}]


def project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "left out.txt").write_text("x")
    (folder / ".podfleetignore").write_text("left*\n")
    (folder / "own.py").write_text("def double(x):\n    return x\n")
    for words in (
        "init -q -b main",
        "add .",
        "-c user.name=A -c user.email=a@b commit -q -m first",
        "remote add origin https://user:CANARY@example.org/a/b.git",
    ):
        subprocess.run(["git", *words.split()], cwd=folder, check=True)
    (folder / "own.py").write_text("def double(x):\n    return 2 * x\n")
    (folder / "left out.txt").write_text("CANARY")
    return folder


def artifact(fleet: Fleet, run_id: str, name: str) -> bytes:
    items = fleet.client.get(f"/api/runs/{run_id}/artifacts").raise_for_status().json()["items"]
    wanted = next(each for each in items if each["name"] == name)
    answer = fleet.client.get(f"/api/artifacts/{wanted['id']}")
    return httpx.get(answer.headers["location"], trust_env=False).raise_for_status().content


def lines(fleet: Fleet, run_id: str) -> str:
    found = fleet.client.get(f"/api/runs/{run_id}/events", params={"type": "ai.run.log", "limit": 200})
    return "\n".join(each["data"]["message"] for each in found.raise_for_status().json()["items"])


def test_a_folder_runs_on_a_pod_and_goes_on_from_its_checkpoint_after_the_pod_died(
    fleet: Fleet, tmp_path: Path
) -> None:
    data = tmp_path / "numbers"
    data.mkdir()
    (data / "n.txt").write_text("seven\n")
    assert podfleet(fleet.url, "data", "push", "numbers", str(data)).returncode == 0
    folder = project(tmp_path / "project")
    done = podfleet(fleet.url, "run", "--folder", str(folder), "--input", "numbers", "--", PYTHON, "train.py")
    assert done.returncode == 0, done.stderr
    run_id = done.stdout.strip()

    worker = fleet.start_quick_worker(name="first")
    clock, never = SystemClock(), threading.Event()
    until_s = clock.monotonic_s() + PATIENCE_S
    while "waits" not in lines(fleet, run_id):
        assert clock.monotonic_s() < until_s
        clock.wait(never, 0.2)
    os.kill(worker.pid, signal.SIGKILL)
    fleet.start_quick_worker(name="first")
    run = fleet.wait_for(run_id, "COMPLETED", limit_s=120)

    assert run["attempt"] == 2
    assert run["summary"] == {"loss": 0.5}
    assert json.loads(artifact(fleet, run_id, "model.json")) == {"weights": [1, 2]}
    assert b"begins at 2\n" in artifact(fleet, run_id, "log.txt")
    rows = fleet.client.get(f"/api/runs/{run_id}/results").raise_for_status().json()["items"]
    assert [(each["key"], each["values"]) for each in rows] == [("last", {"loss": 0.5, "name": "seven"})]

    source = run["spec"]["source"]
    assert re.fullmatch("[0-9a-f]{40}", source["commit"])
    assert (source["branch"], source["is_dirty"]) == ("main", True)
    assert source["remote"] == "https://example.org/a/b.git"
    page = fleet.client.get(f"/runs/{run_id}/spec").raise_for_status().text
    assert source["commit"] in page
    assert "+    return 2 * x" in page
    assert "-    return x" in page
    assert "<code>train.py</code>" in page
    assert "CANARY" not in page + str(run)

    spec = {
        "command": shlex.join([PYTHON, "-c", READ]),
        "inputs": {"n": "numbers", "model": f"run:{run_id}/*.json"},
    }
    again = fleet.submit("job", spec=spec)
    fleet.wait_for(again, "COMPLETED")
    printed = artifact(fleet, again, "log.txt").decode()
    assert "read n/n.txt seven False\n" in printed
    assert 'read model/model.json {"weights": [1, 2]} False\n' in printed
    stored = fleet.run(again)["spec"]["inputs"]
    assert f'<a href="/runs/{run_id}">run:{run_id}/*.json</a>' in fleet.client.get(f"/runs/{again}/spec").text
    assert re.fullmatch("numbers/1@[0-9a-f]{64}", stored["n"])
    assert re.fullmatch(rf"run:{run_id}/\*\.json@[0-9a-f]{{64}}", stored["model"])
    for source, code in (
        ("letters", "unknown_data_set"),
        ("numbers/2", "unknown_data_set"),
        ("0" * 64, "unknown_tree"),
        (f"numbers/1@{'0' * 64}", "other_input"),
        ("run:01NONE", "unknown_run"),
        (f"run:{run_id}/*.bin", "no_files"),
        ("../images", "invalid_spec"),
    ):
        refused = fleet.client.post(
            "/api/runs", json={"kind": "job", "spec": {**spec, "inputs": {"n": source}}}
        )
        assert refused.json()["code"] == code, refused.text


@pytest.mark.slow("two pods, which begin one job twice")
def test_two_pods_run_one_job_and_begin_again_together_when_one_fails(fleet: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "nodes"
    folder.mkdir()
    (folder / "train.py").write_text(NODES)
    done = podfleet(
        fleet.url, "run", "--nodes", "2", "--ready-s", "50", "--folder", str(folder), "--", PYTHON, "train.py"
    )
    assert done.returncode == 0, done.stderr
    group = done.stdout.strip()
    for name in ("first", "second"):
        fleet.start_quick_worker(name=name, PODFLEET_ADDRESS="localhost")
    clock, never = SystemClock(), threading.Event()
    until_s = clock.monotonic_s() + PATIENCE_S
    while (found := fleet.client.get(f"/api/groups/{group}").json())["status"] == "OPEN":
        assert clock.monotonic_s() < until_s, found
        clock.wait(never, 0.3)
    assert (found["status"], found["plan"]["ready_s"]) == ("COMPLETED", 50.0)
    members = fleet.client.get(f"/api/groups/{group}/members").raise_for_status().json()["items"]
    runs = [fleet.wait_for(each["run"]["id"], "COMPLETED") for each in members]
    for rank, run in enumerate(runs):
        assert run["attempt"] == 2
        assert f"node {rank} of 2 sum 3 from 1 at localhost" in artifact(fleet, run["id"], "log.txt").decode()
    assert [run["failures"]["app"] for run in runs] == [0, 1]  # the other one was told to begin again
    must_agree_with_its_log(fleet)


@pytest.mark.slow("a worker that is killed, and seven programs one after another on that in its place")
def test_a_sweep_outlives_a_pod_and_a_study_ends_what_measures_worse(fleet: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "swept"
    folder.mkdir()
    (folder / "train.py").write_text(SWEPT)
    must_go_on_after_a_pod_was_killed(fleet, folder)
    must_end_early_what_measures_worse(fleet, folder)


POISON = """
import glob, os, subprocess
for place in (DATA + "/environments", DATA + "/trees", DATA, *glob.glob(DATA + "/environments/*/lib/*/*")):
    try:
        open(place + "/poison", "w").close()
    except OSError:
        pass
made = os.path.join(DATA, "work", "*", "environment/made/lib/*/*/tinyone/__init__.py")
lives_on = f"while :; do for each in {made}; do echo 'value = 666' > $each; done; done"
subprocess.Popen(["sh", "-c", lives_on], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
"""
USES = """
import tinyone, os, sys
for name in (sys.prefix, tinyone.__file__):
    try:
        os.chmod(name, 0o777)
        print("CHANGED", name)
    except OSError:
        pass
print("value", tinyone.value, sys.prefix)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="a worker that is not root hides by namespaces (test_same_user)")
def test_environments_are_made_once_and_no_package_changes_what_another_run_gets(
    fleet: Fleet, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    data = fleet.home / "maker"
    wheel(wheels, "tinyone", "value = 1\ndef main(): pass\n")
    source(wheels, "hostile", "", POISON.replace("DATA", repr(str(data))))
    runs = []
    for number, requirements in enumerate(("tinyone\n", "hostile\ntinyone\n", "tinyone\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "requirements.txt").write_text(requirements)
        (folder / "uses.py").write_text(USES)
        made = podfleet(fleet.url, "run", "--folder", str(folder), "--", "python", "uses.py")
        assert made.returncode == 0, made.stderr
        runs.append(made.stdout.strip())
    fleet.start_worker(name="maker", UV_FIND_LINKS=str(wheels), UV_NO_INDEX="1")
    for run_id in runs:
        run = fleet.wait_for(run_id, "COMPLETED", "FAILED", limit_s=120)
        assert run["status"] == "COMPLETED", run["error"]
    told = [artifact(fleet, run_id, "log.txt").decode() for run_id in runs]
    assert [each.split()[:2] for each in told] == [["value", "1"]] * 3
    assert told[0] == told[2] != told[1]
    assert "makes an environment" in lines(fleet, runs[0])
    assert "is there" in lines(fleet, runs[2])
    assert list(data.rglob("poison")) == []


@pytest.mark.skipif(os.getuid() != 0, reason="a worker that is not root hides by namespaces (test_same_user)")
def test_a_program_sees_neither_the_secrets_of_the_pod_nor_other_runs(fleet: Fleet) -> None:
    fleet.start_quick_worker(name="spied", is_forked=False, OPENAI_API_KEY="sk-CANARY", HF_TOKEN="hf_CANARY")
    run_id = fleet.submit("job", spec={"command": shlex.join([PYTHON, "-c", SPY])})

    fleet.wait_for(run_id, "COMPLETED", "FAILED", limit_s=90)

    printed = artifact(fleet, run_id, "log.txt").decode()
    assert "seen 0 of True" in printed
    assert "own False" in printed
    assert set(re.findall(r"\w+-a\d+", printed)) <= {f"{run_id}-a1"}, "its own folder, and no other"
