"""Environments of jobs, made by uv of packages in a folder: what a program has, whose fault a failure is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from events.catalog import StageCompleted
from events.kinds import read_spec
from events.runtime.errors import PipelineError
from stages.kinds.job import environment
from stages.kinds.job.environment import environment_of, python_environment
from stages.kinds.job.pipeline import run
from stages.ports.environments import Found
from stages.testing import RecordingReporter, make_context
from tests.integration.packages import source, wheel

TELLS = """
import os, shutil, sys, tinyone, own
from podfleet import run
try:
    import msgspec
except ImportError:
    msgspec = None
print(tinyone.both, own.x, run.is_active(), msgspec, shutil.which("podfleet"), end=" ")
print(sys.prefix == os.environ["VIRTUAL_ENV"], flush=True)
os.system("tinyone-says")
"""


@dataclass(slots=True)
class Kept:
    """Environments of a pod whose packages lie in a folder, or come from an address."""

    variables: dict[str, str]
    options: tuple[str, ...] = ("--no-index",)
    bytes_max: int = 1 << 30
    path: Path | None = None
    asked: list[str] = field(default_factory=list)

    def find(self, digest: str, waiting: Callable[[], None]) -> Found:
        self.asked.append(digest)
        return Found(self.path, self.variables, self.options, self.bytes_max)

    def keep(self, made: Path) -> Found:
        self.path = made.rename(made.parents[2] / "kept")  # as its own tool says, it may lie anywhere
        return Found(self.path)


class Job:
    """One attempt at a job in a folder with these files."""

    def __init__(self, folder: Path, kept: Kept, files: dict[str, str], **more: Any) -> None:
        tree = folder / "tree"
        tree.mkdir(parents=True)
        for name, text in files.items():
            (tree / name).parent.mkdir(exist_ok=True)
            (tree / name).write_text(text)
        work = folder / "workspace"
        work.mkdir()
        spec = read_spec("job", {"command": "python program.py", "tree": "1" * 64, **more})
        self.reporter = RecordingReporter()
        self.context = make_context(spec, work, reporter=self.reporter)
        self.context = replace(self.context, trees={"1" * 64: tree}, environments=kept)

    def run(self) -> dict[str, bytes]:
        run(self.context)
        return self.files

    @property
    def files(self) -> dict[str, bytes]:
        return {each.name: each.path.read_bytes() for each in self.reporter.files}


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    body = "from tinytwo import two\nboth = 1 + two\ndef main(): print('says', both)\n"
    wheel(folder, "tinyone", body, ("tinytwo",))
    wheel(folder, "tinytwo", "two = 2\n")
    return folder


def test_a_program_has_the_packages_of_its_folder_and_none_of_the_pod(wheels: Path, tmp_path: Path) -> None:
    kept = Kept({"UV_FIND_LINKS": str(wheels)})
    project = "[project]\nname='own'\nversion='1'\ndependencies=['tinyone']\nrequires-python='>=3.11'\n"
    files = {"pyproject.toml": project, "src/own.py": "x = 5\n", "program.py": TELLS}
    first = Job(tmp_path / "1", kept, files)

    assert first.run()["log.txt"] == b"3 5 True None None True\nsays 3\n"
    assert b"tinyone==1.0" in first.files["environment.txt"]
    assert [each.stage for each in first.reporter.of(StageCompleted)] == ["environment", "run"]
    assert not (tmp_path / "1" / "workspace" / "environment").exists()

    second = Job(tmp_path / "2", kept, files)
    assert second.run() == {"log.txt": b"3 5 True None None True\nsays 3\n"}
    assert len(set(kept.asked)) == 1


def test_who_chooses_the_pods_python_has_it(wheels: Path, tmp_path: Path) -> None:
    kept = Kept({"UV_FIND_LINKS": str(wheels)})
    here = {"requirements.txt": "tinyone\n", "program.py": "import sys; print(sys.prefix)"}
    for number, (files, python) in enumerate([(here, "pod"), ({"program.py": here["program.py"]}, "auto")]):
        job = Job(tmp_path / str(number), kept, files, python=python)
        assert job.run()["log.txt"].decode().strip() == sys.prefix
    assert kept.asked == []


@pytest.mark.parametrize(
    ("requirements", "code", "words"),
    [
        ("tinyone\nnot-there\n", "ENVIRONMENT_FAILED", "not-there was not found"),
        ("-e /\n", "ENVIRONMENT_FAILED", "line 1: '-e /' names no package"),
        ("broken\n", "ENVIRONMENT_FAILED", "no wheel today"),
        ("heavy\n", "ENVIRONMENT_FAILED", "more than 1 MiB"),
        (None, "ENVIRONMENT_FAILED", "no uv.lock, no pyproject.toml"),
    ],
)
def test_what_cannot_be_made_is_the_runs_own_fault(
    wheels: Path, tmp_path: Path, requirements: str | None, code: str, words: str
) -> None:
    source(wheels, "broken", "", "raise SystemExit('no wheel today')")
    wheel(wheels, "heavy", "#" * (3 << 20))
    kept = Kept({"UV_FIND_LINKS": str(wheels)}, bytes_max=1 << 20)
    files = {"program.py": ""} | ({} if requirements is None else {"requirements.txt": requirements})
    job = Job(tmp_path / "run", kept, files, python="uv")
    with pytest.raises(PipelineError) as failed:
        job.run()
    assert failed.value.code == code
    assert words in " ".join(failed.value.message.split())
    assert kept.path is None


def test_an_index_that_is_away_is_nobodys_fault(tmp_path: Path) -> None:
    kept = Kept({"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}, options=())
    job = Job(tmp_path, kept, {"requirements.txt": "tinyone\n", "program.py": ""})
    with pytest.raises(PipelineError) as failed:
        job.run()
    assert (failed.value.code, failed.value.retryable) == ("INDEX_UNREACHABLE", True)


def test_uv_that_has_no_end_is_ended(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(wheels, "endless", "", "import time\ntime.sleep(600)")
    monkeypatch.setattr(environment, "TIME_S", 1.5)
    job = Job(tmp_path / "run", Kept({"UV_FIND_LINKS": str(wheels)}), {"requirements.txt": "endless\n"})
    with pytest.raises(PipelineError, match="not done after"):
        job.run()


def test_what_is_made_with_a_secret_is_kept_for_nobody_else_and_says_it_not(
    wheels: Path, tmp_path: Path
) -> None:
    source(wheels, "teller", "", "import os, sys\nprint(os.environ['UV_INDEX_X_PASSWORD'])\nsys.exit(1)")
    kept = Kept({"UV_FIND_LINKS": str(wheels)})
    files = {"requirements.txt": "tinyone\n", "program.py": TELLS, "own.py": "x = 5\n"}
    secrets = {
        "UV_INDEX_X_PASSWORD": "hidden-password-1",
        "OTHER": "other-secret-22",
        "PATH": "/usr/bin:/bin",
    }

    def with_secrets(name: str, requirements: str) -> Job:
        job = Job(tmp_path / name, kept, files | {"requirements.txt": requirements})
        tools = replace(job.context.tools, variables=secrets, secrets=("OTHER", "UV_INDEX_X_PASSWORD"))
        job.context = replace(job.context, tools=tools)
        return job

    assert b"says 3" in with_secrets("1", "tinyone\n").run()["log.txt"]
    assert kept.path is None
    job = with_secrets("2", "teller\n")
    with pytest.raises(PipelineError) as failed:
        job.run()
    told = failed.value.message.encode() + job.files["environment.txt"]
    assert b"***" in told
    assert b"hidden-password-1" not in told


def test_paths_of_the_pods_python_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    given = {"PATH": f"{Path(sys.executable).parent}:/usr/bin", "PYTHONPATH": "own"}
    found = python_environment(given, tmp_path / "made", tmp_path, tmp_path / "python")
    assert found["PATH"] == f"{tmp_path}/made/bin:/usr/bin"
    assert found["PYTHONPATH"] == f"own:{tmp_path}/python"


def test_a_link_in_the_place_of_a_list_is_none(wheels: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "requirements.txt").symlink_to("/etc/hostname")
    job = Job(tmp_path / "run", Kept({}), {"program.py": ""})
    assert environment_of(job.context, work, "auto") is None
