"""A machine becomes a pod by the line of `podfleet pods join`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.command_line import within

pytestmark = pytest.mark.common_fleet


def joined(fleet: Any, *options: str) -> dict[str, Any]:
    """Return what `podfleet pods join --json` prints."""
    answer = within(fleet.url, "pods", "join", *options, "--json")
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def machine_at(folder: Path) -> Path:
    """Return an environment that has what a pod needs, but no podfleet, as after the lock was installed."""
    target = folder / "podfleet-pod"
    venv.create(target, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(target)}))
    # what a .pth file of that folder adds, such as a checkout, is not seen from here
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return target


def install(target: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Do what the line does with the wheel, by the same options; its lock is there already."""
    options = shlex.split(line.split(" && ")[1])[1:]
    at = options.index("-r")
    del options[at : at + 2]
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(target / "bin" / "python"),
        *options,
        "--no-index",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow("pip installs the wheel that the control plane serves, and a worker from it serves a run")
def test_a_machine_that_ran_the_line_claims_and_completes_a_run(fleet: Any, tmp_path: Path) -> None:
    found = joined(fleet, "rented", "--label", "rack=a4", "--slots", "1", "--mode", "hybrid")
    target = machine_at(tmp_path)
    other = found["line"].replace(found["sha256"], found["sha256"][::-1])
    refused = install(target, other)
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr

    installed = install(target, found["line"])
    assert installed.returncode == 0, installed.stderr
    run_id = fleet.submit(requires={"labels": {"rack": "a4"}})
    *values, program = found["start"].split(" podfleet-pod/")
    words = shlex.split(f"{target.parent}/podfleet-pod/{program}")
    settings = dict(each.split("=", 1) for each in shlex.split(values[0]))
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "PODFLEET_POD_ID": "rented", **settings}
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            [*words, "--max-runs", "1", "--data", str(tmp_path / "data")],
            env=environment, cwd=tmp_path, stderr=log,
        )  # fmt: skip
        try:
            assert fleet.wait_for(run_id, "COMPLETED")["claimedBy"].startswith("rented/")
            assert worker.wait(60) == 0
        finally:
            worker.kill()
            worker.wait()
    where = [str(target / "bin" / "python"), "-c", "import pod_worker; print(pod_worker.__file__)"]
    assert subprocess.check_output(where, text=True, cwd=tmp_path).startswith(str(target))


def made_older(target: Path) -> None:
    """Make the podfleet of an environment an older one, from another wheel."""
    (about,) = target.glob("lib/python*/site-packages/podfleet-*.dist-info")
    metadata, noted = about / "METADATA", about / "direct_url.json"
    metadata.write_text(re.sub(r"(?m)^Version: .*$", "Version: 0.0.1", metadata.read_text(), count=1))
    told = json.loads(noted.read_text())
    noted.write_text(json.dumps({**told, "archive_info": {"hash": f"sha256={'0' * 64}"}}))
    record = (about / "RECORD").read_text().replace(about.name, "podfleet-0.0.1.dist-info")
    (about / "RECORD").write_text(record)
    about.rename(about.with_name("podfleet-0.0.1.dist-info"))


@pytest.mark.slow("pip installs the wheel twice, and a worker from it starts twice")
def test_a_worker_that_joined_and_is_rolled_installs_what_is_served_and_comes_back(
    fleet: Any, database: Any, until: Any, tmp_path: Path
) -> None:
    found = joined(fleet, "--pod", "rented", "--slots", "1", "--mode", "hybrid", "--extras", "pod")
    target = machine_at(tmp_path)
    installed = install(target, found["line"])
    assert installed.returncode == 0, installed.stderr
    made_older(target)
    *values, program = found["start"].split(" podfleet-pod/")
    words = shlex.split(f"{target.parent}/podfleet-pod/{program}")
    settings = dict(each.split("=", 1) for each in shlex.split(values[0]))
    assert settings["PODFLEET_UPDATE"] == "pod"
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), **settings}
    with (tmp_path / "worker.log").open("wb") as log:
        command = [*words, "--data", str(tmp_path / "data")]
        worker = subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=log)
        try:
            until(
                lambda: database.pods.count_documents({"state": "idle", "version": "0.0.1"}) == 1, seconds=90
            )
            rolled = within(fleet.url, "pods", "roll", "--back", "3m")
            assert rolled.returncode == 0, f"{rolled.stderr}\n{(tmp_path / 'worker.log').read_text()}"
            assert worker.poll() is None, "it became the new program"
            now = {"state": "idle", "version": version("podfleet")}
            assert database.pods.count_documents({"pod": "rented", **now}) == 1
        finally:
            worker.kill()
            worker.wait()


@pytest.mark.long("the whole line, with its packages from where pip is told to look")
def test_the_whole_line_makes_a_pod_of_an_empty_machine(fleet: Any, tmp_path: Path) -> None:
    found = joined(fleet, "--mode", "hybrid", "--python", sys.executable)
    run_id = fleet.submit()
    line = f"{found['line']} --max-runs 1 --data {tmp_path / 'data'}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert fleet.wait_for(run_id, "COMPLETED")["status"] == "COMPLETED"


def test_the_key_of_the_line_does_what_pods_do_until_its_end_and_nothing_else(fleet: Any) -> None:
    found = joined(fleet, "m1", "--expires", "2h", "--pod", "m1")
    key = dict(each.split("=", 1) for each in shlex.split(found["start"])[:2])["PODFLEET_API_KEY"]
    assert key.startswith("pf_pod_")
    (made,) = (
        each for each in fleet.client.get("/api/keys").json()["items"] if each["id"] == found["key_id"]
    )
    assert (made["kind"], made["name"], made["pod"]) == ("pod", "m1", "m1")
    assert sorted(made["scopes"]) == ["claim", "ingest"]
    assert made["endsAt"] == found["ends_at"]
    for path in ("/api/runs", "/api/keys", "/api/install"):
        answer = fleet.client.get(path, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == httpx.codes.FORBIDDEN, path


def test_the_files_are_served_without_a_key_and_kept_by_their_hash(fleet: Any) -> None:
    told = fleet.client.get("/api/install").json()
    wheel = fleet.client.get(told["wheel"])
    assert hashlib.sha256(wheel.content).hexdigest() == told["sha256"]
    assert (len(wheel.content), int(wheel.headers["content-length"])) == (told["bytes"], told["bytes"])
    tag = wheel.headers["etag"]
    for sent in (tag, f"W/{tag}", f'"x", {tag}'):
        same = fleet.client.get(told["wheel"], headers={"If-None-Match": sent})
        assert (same.status_code, same.content, same.headers["etag"].removeprefix("W/")) == (304, b"", tag)
    assert fleet.client.get(told["wheel"], headers={"If-None-Match": '"x"'}).status_code == 200
    head = fleet.client.head(told["wheel"])
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    lock = fleet.client.get(told["requirements"], params={"extras": "pod"}).text
    assert "\nhttpx==" in lock
    assert "torch==" not in lock
    assert told["sha256"] in fleet.client.get("/install/").text


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/install/podfleet-9.9-py3-none-any.whl", 404, "unknown_file"),
        ("/install/..%2Fconfig.py", 404, None),
        ("/install/pods.json", 404, "unknown_file"),
        ("/install/requirements.txt?extras=test", 422, "unknown_extra"),
        (f"/install/requirements.txt?extras={'pod,' * 100}", 422, None),
        ("/install/requirements.txt?torch=none", 422, None),
    ],
)
def test_what_is_not_there_to_be_installed_is_refused(
    fleet: Any, path: str, status: int, code: str | None
) -> None:
    answer = fleet.client.get(path)
    assert answer.status_code == status
    assert code is None or answer.json()["code"] == code


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--expires", "soon"), "--expires is 'soon'"),
        (("--mode", "all"), "--mode is 'all'"),
        (("--extras", "pod,test"), "--extras names test"),
        (("--extras", "models"), "without pod no worker starts"),
        (("--label", "no value"), "no value"),
    ],
)
def test_a_wrong_option_makes_no_key(fleet: Any, options: tuple[str, ...], words: str) -> None:
    before = fleet.client.get("/api/keys").json()["items"]
    answer = within(fleet.url, "pods", "join", *options)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr
    assert fleet.client.get("/api/keys").json()["items"] == before


def test_the_machine_is_told_the_public_address(fleet: Any) -> None:
    answer = within(fleet.url, "pods", "join", PODFLEET_PUBLIC_URL="https://fleet.example/")
    assert answer.returncode == 0, answer.stderr
    assert (
        "-r https://fleet.example/install/requirements.txt 'podfleet @ https://fleet.example/"
        in answer.stdout
    )
    assert "CONTROL_PLANE_URL=https://fleet.example PODFLEET_API_KEY=" in answer.stdout
    assert "this machine alone" not in answer.stderr
    assert "this machine alone" in within(fleet.url, "pods", "join").stderr
    wrong = within(fleet.url, "pods", "join", PODFLEET_PUBLIC_URL="fleet.example")
    assert (wrong.returncode, wrong.stdout) == (2, "")
