"""`podfleet pods roll`: real workers get another version, one after the other, while runs are at work."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import Program
from tests.integration.command_line import started, within

OLD = "0.0.1"
RUNS = 12
pytestmark = pytest.mark.common_fleet


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A folder that makes podfleet an older version for whoever looks for packages there first."""
    about = tmp_path / f"podfleet-{OLD}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: podfleet\nVersion: {OLD}\n")
    return str(tmp_path)


def started_old(fleet: Any, name: str, old: str, **more: str) -> Program:
    worker: Program = fleet.start_quick_worker("--packages", old, name=name, **more)
    return worker


@pytest.mark.slow("two real workers restart while runs are at work")
def test_each_pod_gets_the_version_in_its_turn_and_no_run_is_lost_or_charged(
    fleet: Any, database: Any, until: Any, old: str
) -> None:
    ways = {"direct": {}, "remote": {"MONGODB_URL": ""}}
    workers = {name: started_old(fleet, name, old, **way) for name, way in ways.items()}
    until(lambda: database.pods.count_documents({"state": "idle", "version": OLD}) == 2, seconds=60)
    listed = within(fleet.url, "pods", "roll", "--dry-run", "--json")
    assert sorted(each["pod"] for each in json.loads(listed.stdout)) == ["direct", "remote"], listed.stderr
    page = fleet.client.get("/pods").text
    assert page.count(f"control plane {version('podfleet')}</span>") == 2
    runs = [fleet.submit(spec={"seconds": 0.5}) for _ in range(RUNS)]
    until(lambda: database.pods.count_documents({"state": "busy"}) >= 1)

    restarts = dict.fromkeys(ways, 0)
    with started(fleet.url, "pods", "roll", "--limit", "2m", "--back", "2m") as rolling:

        def has_ended() -> bool:
            """Supervise the workers, as whatever starts them does: the next start finds the new version."""
            assert database.cordons.count_documents({}) <= 1
            for name, worker in workers.items():
                if worker.poll() is not None:
                    assert worker.returncode == 0, "nobody would start it again"
                    restarts[name] += 1
                    others = [each for other, each in workers.items() if other != name]
                    assert all(each.poll() is None for each in others), "never more than one is away"
                    workers[name] = fleet.start_quick_worker(name=name, **ways[name])
            return rolling.poll() is not None

        until(has_ended, seconds=120)
        said, errors = rolling.communicate()
    assert (rolling.returncode, errors) == (0, ""), said
    assert f"2 updated to {version('podfleet')}, 0 left" in said
    assert restarts == {"direct": 1, "remote": 1}
    assert database.cordons.count_documents({}) == 0
    for run_id in runs:
        run = fleet.wait_for(run_id, "COMPLETED")
        assert (run["attempt"], set(run["failures"].values())) == (1, {0})
    live = database.pods.find({"state": {"$ne": "stopped"}})
    assert {each["version"] for each in live} == {version("podfleet")}
    again = within(fleet.url, "pods", "roll")
    assert (again.returncode, again.stdout) == (0, f"0 updated to {version('podfleet')}, 0 left\n")


def test_a_name_that_no_pod_has_and_a_wrong_label_begin_nothing(fleet: Any) -> None:
    unknown = within(fleet.url, "pods", "roll", "nobody")
    assert (unknown.returncode, unknown.stderr) == (1, "no live pod is called nobody\n")
    assert within(fleet.url, "pods", "roll", "--label", "rack").returncode == 2
