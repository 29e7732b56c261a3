"""Jobs in the sandbox: what reaches nothing outside, and all that works there as it does anywhere."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from events.catalog import RunLog
from events.kinds import read_spec
from events.runtime.clock import SystemClock
from events.runtime.errors import Canceled, PipelineError
from stages.adapters.sandbox import escape
from stages.adapters.sandbox.prober import DECOY_NAME, laid_out, was_called
from stages.adapters.sandbox.sandbox import LocalSandbox
from stages.isolation.levels import BUBBLEWRAP, LANDLOCK, Candidate
from stages.kinds.job.pipeline import run
from stages.ports.environments import Found
from stages.testing import MemoryCheckpoints, RecordingLiveView, RecordingReporter, make_context, make_tools
from tests.integration.packages import wheel

Cancels = Callable[[RecordingLiveView], AbstractContextManager[None]]
TREE, DATA = "1" * 64, "2" * 64
BOTH = pytest.mark.parametrize("candidate", [BUBBLEWRAP, LANDLOCK], ids=lambda each: each.name)

WORKS = """
    import os, pathlib, signal, sys, time
    import tinyone
    from podfleet import run

    def stop(*_):
        pathlib.Path("state.txt").write_text("17")
        run.checkpoint("state.txt")
        run.flush()
        print("stopped", flush=True)
        sys.exit(0)

    print(tinyone.one, run.restored(), os.environ["OWN"], os.getcwd() == os.path.abspath("."), flush=True)
    os.system("tinyone-says")
    print(pathlib.Path(os.environ["PODFLEET_INPUTS"], "numbers", "n.txt").read_text(), flush=True)
    pathlib.Path(os.environ["PODFLEET_OUTPUT"], "model.txt").write_text("weights")
    run.log({"loss": 0.5}, 1)
    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    time.sleep(600)
"""


@cache
def sandbox(*candidates: Candidate) -> LocalSandbox:
    """Return the one of these candidates, which tries them once for all tests."""
    return LocalSandbox(clock=SystemClock(), candidates=candidates)


class Job:
    """One attempt at a job of this program, held by one candidate."""

    def __init__(
        self, folder: Path, candidates: tuple[Candidate, ...], files: dict[str, str], **more: Any
    ) -> None:
        self.folder = folder
        for name, text in {"tree/program.py": files.pop("program.py"), "data/n.txt": "seven"}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        for name, text in files.items():
            (folder / "tree" / name).write_text(text)
        self.work = folder / "workspace"
        self.work.mkdir()
        variables = more.pop("settings", {})
        spec = {"command": f"{sys.executable} program.py", "tree": TREE, "inputs": {"numbers": f"n/1@{DATA}"}}
        self.reporter, self.checkpoints, self.live = (
            RecordingReporter(),
            MemoryCheckpoints(),
            RecordingLiveView(),
        )
        context = make_context(
            read_spec("job", {**spec, "isolation": "sandbox", **more}),
            self.work,
            reporter=self.reporter,
            checkpoints=self.checkpoints,
            live=self.live,
            tools=make_tools(
                sandbox(*candidates),
                variables={"PATH": os.environ["PATH"], **variables},  # noqa: TID251
            ),
        )
        self.context = replace(context, trees={TREE: folder / "tree", DATA: folder / "data"})

    def run(self) -> bytes:
        run(self.context)
        return self.printed

    @property
    def printed(self) -> bytes:
        return next(each.path.read_bytes() for each in self.reporter.files if each.name == "log.txt")

    @property
    def lines(self) -> str:
        return "\n".join(each.message for each in self.reporter.of(RunLog))


class Kept:
    """Environments of a pod, whose packages lie in a folder."""

    def __init__(self, packages: Path) -> None:
        self.packages = packages
        self.path: Path | None = None

    def find(self, digest: str, waiting: Callable[[], None]) -> Found:
        return Found(self.path, {"UV_FIND_LINKS": str(self.packages)}, ("--no-index",))

    def keep(self, made: Path) -> Found:
        self.path = made.rename(made.parents[2] / "kept")
        return Found(self.path)


@contextmanager
def signals_counted() -> Iterator[list[int]]:
    heard: list[int] = []
    before = signal.signal(signal.SIGURG, lambda number, _: heard.append(number))
    try:
        yield heard
    finally:
        signal.signal(signal.SIGURG, before)


@BOTH
@pytest.mark.parametrize("level", ["alone", "network", "raised"])
def test_a_program_that_tries_to_get_out_reaches_nothing_but_the_network_it_asked_for(
    tmp_path: Path, candidate: Candidate, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {"network": True} if level == "network" else {}
    if level == "raised":
        more = {"isolation": "user", "settings": {"PODFLEET_JOB_ISOLATION": "sandbox"}}
    program = Path(escape.__file__).read_text()
    with laid_out() as decoys, signals_counted() as heard:
        monkeypatch.setenv(DECOY_NAME, decoys.secret)
        job = Job(tmp_path, (candidate,), {"program.py": program}, **more)
        given = tmp_path / "data" / "n.txt"
        asked = replace(decoys.questions(os.getpid(), ()), given=str(given))
        (tmp_path / "tree" / escape.QUESTIONS).write_text(asked.encode())
        job.run()

        answers = escape.Answers.decode((job.work / "work" / escape.ANSWERS).read_text())
        assert answers.worked == dict.fromkeys(answers.worked, False)
        assert answers.missing == {}
        assert (given.read_text(), heard) == ("seven", [])
        assert decoys.canary.read_text() == decoys.secret
        assert [each for each in decoys.planted if each.exists()] == []
        called = [was_called(each) for each in (decoys.tcp, decoys.udp)]
        assert called == [level != "alone"] * 2
        assert not any(map(was_called, (decoys.stream, decoys.datagrams, decoys.abstract)))
    said = "without the network" if level == "alone" else "with the network"
    assert f"held by {candidate.name}" in job.lines
    assert said in job.lines
    assert ("since this pod demands it" in job.lines) == (level == "raised")


@BOTH
def test_a_job_in_the_sandbox_has_all_that_others_have(
    tmp_path: Path, candidate: Candidate, canceled: Cancels
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, "tinyone", "one = 1\ndef main(): print('says', one, flush=True)\n")
    kept = Kept(wheels)
    files = {"program.py": textwrap.dedent(WORKS), "requirements.txt": "tinyone\n"}
    job = Job(tmp_path / "1", (candidate,), files, command="python program.py", env={"OWN": "x"}, python="uv")
    job.context = replace(job.context, environments=kept)

    with canceled(job.live), pytest.raises(Canceled):
        job.run()
    assert job.printed == b"1 None x True\nsays 1\nseven\nready\nstopped\n"
    assert [*job.checkpoints.kept["job"].files] == ["state.txt"]
    assert {"log.txt", "model.txt"} <= {each.name for each in job.reporter.files}
    assert (kept.path is not None) == (candidate is BUBBLEWRAP)  # Landlock makes no file executable


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        ("raise SystemExit('no more')", "JOB_FAILED", "status 1: no more"),
        ("import os; os.abort()", "JOB_FAILED", "signal 6"),
    ],
)
def test_a_program_in_the_sandbox_ends_as_any_does(
    tmp_path: Path, program: str, code: str, words: str
) -> None:
    with pytest.raises(PipelineError, match=words) as caught:
        Job(tmp_path, (BUBBLEWRAP,), {"program.py": program}).run()
    assert caught.value.code == code
