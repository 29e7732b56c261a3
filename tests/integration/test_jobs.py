"""Jobs on a real fleet: a person's folder, what its program says and leaves, and who may see what."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import threading
from pathlib import Path

import httpx
import pytest

from events.runtime.clock import SystemClock
from tests.integration.command_line import podfleet
from tests.integration.conftest import Fleet
from tests.integration.packages import source, wheel

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


def project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "own.py").write_text("def double(x):\n    return 2 * x\n")
    (folder / "left out.txt").write_text("x")
    (folder / ".podfleetignore").write_text("left*\n")
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


POISON = """
import glob, os, subprocess
for folder in (DATA + "/environments", DATA + "/trees", DATA, *glob.glob(DATA + "/environments/*/lib/*/*")):
    try:
        open(folder + "/poison", "w").close()
    except OSError:
        pass
lives_on = "while :; do for each in " + DATA + "/work/*/environment/made/lib/*/*/tinyone/__init__.py; do " \\
    "echo 'value = 666' > $each; done; done"
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
    fleet.start_worker(name="maker", UV_FIND_LINKS=str(wheels), UV_NO_INDEX="1")
    data = fleet.home / "maker"
    wheel(wheels, "tinyone", "value = 1\ndef main(): pass\n")
    source(wheels, "hostile", "", POISON.replace("DATA", repr(str(data))))

    def done(name: str, requirements: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "requirements.txt").write_text(requirements)
        (folder / "uses.py").write_text(USES)
        made = podfleet(fleet.url, "run", "--folder", str(folder), "--", "python", "uses.py")
        assert made.returncode == 0, made.stderr
        run_id = made.stdout.strip()
        run = fleet.wait_for(run_id, "COMPLETED", "FAILED", limit_s=120)
        assert run["status"] == "COMPLETED", run["error"]
        return run_id

    runs = [done("1", "tinyone\n"), done("2", "hostile\ntinyone\n"), done("3", "tinyone\n")]
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
