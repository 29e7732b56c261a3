"""A worker that is not root: its pipelines have its user, and get nothing of what is its own."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stages.adapters.sandbox.kernel import landlock_abi
from tests.integration.programs.attacker import MEMORY_KEY

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/integration/programs/nobodys_worker.py"
SERVING = ROOT / "tests/integration/programs/serving_run.py"
NOBODY = 65_533
# Landlock lets nobody list a folder and not those in it: the worker's lies in one of packages here.
NAMES = ["names of runs"]
TEMPORARY = Path("/tmp/podfleet-1")
CAN_NAMESPACES = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode == 0
WAYS = [
    pytest.param(
        "namespace",
        marks=pytest.mark.skipif(not CAN_NAMESPACES, reason="this machine forbids namespaces of users"),
    ),
    pytest.param(
        "landlock",
        marks=pytest.mark.skipif(
            landlock_abi() < 3, reason="this kernel's Landlock lets files be cut, or is not"
        ),
    ),
]


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with what a worker has, all of it its user's: nothing but the confinement protects it."""
    kept_memory()
    with tempfile.TemporaryDirectory(prefix="podfleet-") as name:
        folder = Path(name)
        shared = Path("/dev/shm", f"podfleet-secret-{folder.name}")
        temporary = Path(f"/tmp/podfleet-1-{folder.name}")
        inside = ("data/outbox.db", "data/claim.token", ".podfleet/access.json", ".env", "home/.ssh/key")
        secrets = [*(folder / each for each in inside), temporary / "secret", shared]
        for each in secrets:
            each.parent.mkdir(parents=True, exist_ok=True)
            each.write_text("secret")
        if os.getuid() == 0:
            for each in (folder, *folder.rglob("*"), temporary, *secrets):
                os.chown(each, NOBODY, NOBODY)
        yield folder
        spoilt = [each for each in secrets if not each.exists() or each.read_text() != "secret"]
        planted = [each for place in {each.parent for each in secrets} for each in place.glob("mine*")]
        for each in (*planted, shared):
            each.rmdir() if each.is_dir() else each.unlink(missing_ok=True)
        shutil.rmtree(temporary)
        kept_memory()
        assert (spoilt, planted) == ([], [])


def worked(home: Path, way: str, what: str) -> dict[str, Any]:
    """Return what a worker says of itself and of its runs."""
    command = [sys.executable, str(PROGRAM), str(ROOT), str(home), way, what]
    environ = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "HOME": str(home / "home")}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=home, env=environ, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def kept_memory() -> list[int]:
    """Return, and remove, what runs left of System V's memory."""
    rows = (line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:])
    found = [int(row[1]) for row in rows if int(row[0]) == MEMORY_KEY]
    for each in found:
        ctypes.CDLL(None).shmctl(each, 0, None)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_pipeline_of_the_same_user_gets_nothing_of_its_worker(home: Path, way: str) -> None:
    told = worked(home, way, "attacks")
    assert told["gap"] is None
    for how in ("started", "forked"):
        run = told[how]
        assert run["wins"] == ("[]" if way == "namespace" else str(NAMES)), how
        assert run["no way back"] == "True"
        assert run["restored"] == "state"
        assert run["made"] == ["whole"], "the worker reads what was made"
        assert run["end"] == "ai.run.completed"
    assert told["forked"]["memory"] == "True"
    if way == "namespace":
        assert not kept_memory(), "memory ends with its namespace"
    name = "bubblewrap" if way == "namespace" and shutil.which("bwrap") else "fence"
    assert told["started"]["sandbox"] == f"{name}, finished, by the program"
    assert told["left"] == ["run-1"], "what the processes had is gone, and nobody else's"
    other = home / "data" / "work" / "run-1" / "other-a1"
    assert [each.name for each in other.iterdir()] == ["secret"]
    assert (other / "secret").read_text() == "secret"


@pytest.mark.parametrize("way", ["user", *WAYS])
def test_a_confined_run_serves_a_model_to_itself(home: Path, way: str) -> None:
    if way == "user" and os.getuid() != 0:
        pytest.skip("only root can give away users")
    home.chmod(0o711)
    command = [sys.executable, str(SERVING), str(ROOT), str(home), way]
    environ = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "HOME": str(home / "home")}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=home, env=environ, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["user"] != 0
    assert (told["tokens"], told["left"]) == (8, [])


@pytest.mark.parametrize("way", WAYS)
def test_a_trial_finds_what_does_not_confine_and_nobody_goes_on_in_that(home: Path, way: str) -> None:
    lies = worked(home, way, "lies")
    assert lies["blind"] == f"it cannot read {home / 'home' / 'data set'}", (
        "which is hidden, and was not named"
    )
    if way == "namespace":
        assert lies["open"].startswith("it may not be confined"), (
            "what hides nothing has no folder of its own"
        )
        assert lies["without a sandbox"] == "bubblewrap, which holds programs of models, does not work inside"
        assert lies["broken, started"] is None
        assert lies["broken, forked"] is None, "nobody goes on who is not confined"
    else:
        assert lies["open"] == f"it can read files in {home}/data"
        assert lies["without a sandbox"] is None, "under Landlock nobody asks for it"
