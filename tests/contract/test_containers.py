"""Engines in containers, by a double of Docker's client that follows what Docker documents of its commands.

No test has Docker: what its daemon does besides (images, GPUs, limits of memory) is not seen here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from events.models.containers import Container, read_inspected
from events.models.rows.ollama import OLLAMA
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import PipelineError
from pod_worker.isolation.containers import remove_containers
from stages.engines.failure import EngineFailed
from stages.engines.processes import is_free, living
from stages.engines.running import ServingLimits
from stages.engines.serving import serve
from testing.engine_double.row import DOUBLE, misbehaving
from testing.real_engines.cases import until

CLOCK, IDS = SystemClock(), SystemIds()
TOKEN, PROXY = "hf_abcdefghijklmnop", "http://me:pass-word-1@10.0.0.1:3128"


class Docker:
    """A folder with the double as `docker`, and what there is of containers."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.path = f"{folder / 'bin'}{os.pathsep}{os.defpath}"
        client = folder / "bin" / "docker"
        client.parent.mkdir()
        root = Path(__file__).parents[2]
        words = f'exec "{sys.executable}" -S -P -m testing.engine_double.docker "{self.state}" "$@"'
        client.write_text(f'#!/bin/sh\nPYTHONPATH="{root}" {words}\n')
        client.chmod(0o755)

    @property
    def containers(self) -> dict[str, Any]:
        return {file.stem: json.loads(file.read_text()) for file in self.state.glob("*.json")}


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Docker]:
    found = Docker(tmp_path)
    yield found
    for row in found.containers.values():
        subprocess.run(["/bin/kill", "-KILL", "--", f"-{row['State']['Pid']}"], check=False)


def contained(docker: Docker, folder: Path, **more: Any) -> Any:
    engine = more.pop("engine", DOUBLE)
    (folder / "run").mkdir(exist_ok=True)
    return serve(
        engine, "org/model", more.pop("parameters", {}), name="m", folder=folder / "run", clock=CLOCK,
        ids=IDS, image=more.pop("image", "double:1"), pod=more.pop("pod", "pod-1"),
        environment={"PATH": docker.path, **more.pop("environment", {})}, **more,
    )  # fmt: skip


def test_a_container_has_what_is_given_and_nothing_remains_of_it(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-an-engine")
    (tmp_path / "hf").mkdir()
    given = {"HF_TOKEN": TOKEN, "HTTPS_PROXY": PROXY, "HF_HOME": str(tmp_path / "hf")}
    lines: list[str] = []
    with contained(docker, tmp_path, environment=given, say=lines.append, gpus=1) as found:
        [row] = docker.containers.values()
        assert row["HostConfig"] == {
            "NetworkMode": "host", "IpcMode": "host", "Binds": [f"{tmp_path / 'hf'}:{tmp_path / 'hf'}"]
        }  # fmt: skip
        assert row["Config"]["Labels"] == {"podfleet.pod": "pod-1"}
        assert {each.partition("=")[0] for each in row["Config"]["Env"]} == {
            "PATH", "PYTHONPATH", "LANG", *given
        }, "the last two but the given are the image's own, and the language"  # fmt: skip
        assert not any(docker.path in each for each in row["Config"]["Env"])
        assert row["Config"]["Cmd"][:2] == ["python3", "-P"]
        arguments = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in living(found.pid)]
        assert not any(TOKEN.encode() in each or b"pass-word-1" in each for each in arguments)
        assert found.ended() is None
        pid = row["State"]["Pid"]
    assert (docker.containers, living(pid), living(found.pid), is_free(found.port)) == ({}, [], [], True)
    assert "double: {'slots': 4" in found.log.read_text()
    own, read_back, *_ = lines
    assert "double: double: {'slots': 4" in lines[-1]
    assert own.endswith("has HTTPS_PROXY=http://***@10.0.0.1:3128, HF_TOKEN=***")
    assert "HTTPS_PROXY=http://***@10.0.0.1:3128" in read_back
    assert "HF_TOKEN=***" in read_back
    assert not any(TOKEN in each or "pass-word-1" in each for each in lines)


@pytest.mark.parametrize(
    ("more", "advice", "words"),
    [
        ({"parameters": {"slots": 64, "batch": 4_096}}, "OUT_OF_MEMORY", "CUDA out of memory"),
        (
            {"engine": misbehaving("--holds-mib=250"), "limits": ServingLimits(memory_bytes=150 << 20)},
            "OUT_OF_MEMORY",
            "its container was killed for memory",
        ),
        ({"image": "missing:1"}, "IMAGE", r"status 125\): docker: Error response"),
        ({"engine": misbehaving("--never-ready"), "limits": ServingLimits(ready_s=2.0)}, None, "within 2 s"),
    ],
)
def test_a_container_that_does_not_start_says_why(
    docker: Docker, tmp_path: Path, more: dict[str, Any], advice: str | None, words: str
) -> None:
    with pytest.raises(EngineFailed, match=words) as caught, contained(docker, tmp_path, **more):
        pytest.fail("it was not there")
    assert docker.containers == {}
    assert (caught.value.advice and caught.value.advice.code) == advice
    assert caught.value.log.stat().st_size > 0


def test_a_container_that_ignores_sigterm_is_killed(docker: Docker, tmp_path: Path) -> None:
    limits = ServingLimits(term_s=0.1)
    with contained(docker, tmp_path, engine=misbehaving("--ignores-sigterm"), limits=limits) as found:
        [row] = docker.containers.values()
    assert (docker.containers, living(row["State"]["Pid"]), is_free(found.port)) == ({}, [], True)


def test_a_client_that_dies_leaves_the_whole_log_and_no_container(docker: Docker, tmp_path: Path) -> None:
    with contained(docker, tmp_path) as found:
        os.kill(found.pid, signal.SIGKILL)
        until(lambda: found.ended() is not None)
        [row] = docker.containers.values()
        assert living(row["State"]["Pid"]), "it goes on without its client"
        found.log.write_text("what the client had passed on\n")
    assert (docker.containers, living(row["State"]["Pid"]), is_free(found.port)) == ({}, [], True)
    assert found.log.read_text().startswith("double: {'slots': 4"), "Docker had more of it"


def test_a_container_that_cannot_be_removed_is_not_taken_for_gone(docker: Docker, tmp_path: Path) -> None:
    with (
        pytest.raises(EngineFailed, match="its container podfleet-"),
        contained(docker, tmp_path, limits=ServingLimits(kill_s=0.2)),
    ):
        (docker.state / "stuck").touch()
    assert docker.containers
    (docker.state / "stuck").unlink()


AS_ASKED: dict[str, Any] = {
    "State": {"Running": True},
    "Config": {"Labels": {"podfleet.pod": "pod-1"}},
    "HostConfig": {"NetworkMode": "host", "IpcMode": "host"},
}


@pytest.mark.parametrize(
    "lie",
    [
        {"HostConfig": {"NetworkMode": "bridge", "IpcMode": "host"}},
        {"HostConfig": {"NetworkMode": "host", "IpcMode": "private"}},
        {"Config": {"Labels": {"podfleet.pod": "pod-2"}}},
        {"State": {"Running": False}},
    ],
    ids=lambda lie: next(iter(lie)),
)
def test_another_container_than_was_asked_for_is_not_used(
    docker: Docker, tmp_path: Path, lie: dict[str, Any]
) -> None:
    client = docker.state.parent / "bin" / "docker"
    told = json.dumps([AS_ASKED | lie])
    liar = f"[ \"$1\" = inspect ] && {{ echo '{told}'; exit 0; }}\nPYTHONPATH"
    client.write_text(client.read_text().replace("PYTHONPATH", liar, 1))
    with pytest.raises(EngineFailed, match="another container"), contained(docker, tmp_path):
        pytest.fail("it was used")
    assert docker.containers == {}


@pytest.mark.parametrize(
    ("more", "code", "why"),
    [
        ({"engine": OLLAMA}, "CONFIG", "lists no alias"),
        ({"image": "--privileged"}, "CONFIG", "no name of an image"),
        ({"environment": {"PATH": "/nowhere"}}, "NOT_AVAILABLE", "no program 'docker'"),
    ],
)
def test_what_cannot_be_in_a_container_is_refused_before_anything_starts(
    docker: Docker, tmp_path: Path, more: dict[str, Any], code: str, why: str
) -> None:
    with pytest.raises(PipelineError, match=why) as caught, contained(docker, tmp_path, **more):
        pytest.fail("it started")
    assert (caught.value.code, docker.state.exists()) == (code, False)


OWNER = """
import sys, threading
from pathlib import Path
from tests.contract.test_containers import Docker, contained
docker = Docker.__new__(Docker)
docker.path, docker.state = sys.argv[1], Path(sys.argv[2])
with contained(docker, Path(sys.argv[3])) as found:
    print(found.pid, found.port, flush=True)
    threading.Event().wait()
"""


def test_a_container_ends_with_the_process_that_started_it(docker: Docker, tmp_path: Path) -> None:
    (tmp_path / "owner").mkdir()
    command = [sys.executable, "-c", OWNER, docker.path, str(docker.state), str(tmp_path / "owner")]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert owner.stdout is not None
    pid, port = map(int, owner.stdout.readline().split())
    [row] = docker.containers.values()
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until(lambda: not living(pid) and is_free(port) and not docker.containers)
    assert living(row["State"]["Pid"]) == []


def test_a_worker_that_starts_again_removes_what_is_its_own(docker: Docker, tmp_path: Path) -> None:
    """Where the guard is killed too, as all processes of a run's user are, Docker still has the container."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with contained(docker, tmp_path / "b", pod="pod-11") as other:
        with (
            pytest.raises(EngineFailed, match="its container"),
            contained(docker, tmp_path / "a", limits=ServingLimits(kill_s=0.2)),
        ):
            (docker.state / "stuck").touch()
        (docker.state / "stuck").unlink()
        assert sorted(each["Config"]["Labels"]["podfleet.pod"] for each in docker.containers.values()) == [
            "pod-1", "pod-11"
        ]  # fmt: skip
        assert remove_containers("pod-1", {"PATH": docker.path}) == 1
        assert remove_containers("pod-1", {"PATH": docker.path}) == 0
        assert [*docker.containers] == [other.alias]
        assert other.ended() is None
    assert remove_containers("pod-1", {"PATH": "/nowhere"}) == 0


def test_what_docker_says_may_be_anything() -> None:
    for nothing in (b"null", b"3", b"[]", b"[3]", b"{}", b"[" * 200_000, b"\xff"):
        assert read_inspected(nothing) is None
    odd = read_inspected(b'[{"State": 3, "Config": {"Env": {"a": 1}, "Labels": []}}]')
    assert odd is not None
    assert (odd.is_running, odd.exit_code, odd.environment) == (False, -1, {})


def test_a_container_may_be_bounded_and_have_gpus() -> None:
    asked = Container(
        name="n", pod="", image="i:1", variables=("A",), read_only=("/m",), writable=("/c",), has_gpus=True,
        memory_bytes=1_000, cores=2,
    )  # fmt: skip
    assert asked.words(["vllm", "serve"]) == [
        *("docker", "run", "--name", "n", "--label", "podfleet.pod=unknown", "--network", "host"),
        *("--ipc", "host", "--entrypoint", "", "--gpus", "all", "--memory", "1000", "--memory-swap", "1000"),
        *("--cpus", "2", "--volume", "/m:/m:ro", "--volume", "/c:/c", "--env", "A", "i:1", "vllm", "serve"),
    ]
    words = replace(asked, devices=("GPU-a", "GPU-b")).words(["vllm"])
    assert words[words.index("--gpus") + 1] == '"device=GPU-a,GPU-b"'
