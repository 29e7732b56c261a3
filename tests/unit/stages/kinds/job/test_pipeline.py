"""Jobs: real programs, what they say and print, how they end, and what is left of them."""

from __future__ import annotations

import base64
import io
import sys
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from events.catalog import ResultRecorded, RunLog, RunSummarized, StageMetric, StageProgress
from events.kinds import read_spec
from events.runtime.errors import Canceled, PipelineError, Rejected
from stages.engines.processes import living
from stages.kinds.job import output, pipeline
from stages.kinds.job.pipeline import run
from stages.kinds.job.program import READER_S, Output
from stages.kinds.job.secrets import Secrets
from stages.testing import MemoryCheckpoints, MemoryNotes, RecordingLiveView, RecordingReporter, make_context
from testing.bench.machine import CLOCK, ROOT
from tests.unit.stages.kinds.job.test_event_files import number

SAYS = """
    from podfleet import run
    import base64, os, pathlib, sys

    print("hello", flush=True)
    with run.stage("train"):
        for step in range(3):
            run.log({"loss": 1 / (step + 1), "odd": float("nan")}, step)
        run.progress(0.5, "epoch 1")
    run.summary({"accuracy": 0.9, "name": "small"})
    run.result("epochs", "1", {"loss": 0.5, "best": True}, status="done")
    out = pathlib.Path(os.environ["PODFLEET_OUTPUT"])
    (out / "deep").mkdir()
    (out / "deep" / "model.bin").write_bytes(b"weights")
    (out / "early.txt").write_text("early")
    (out / "events.out.tfevents.1").write_bytes(base64.b64decode(os.environ["EVENTS"]))
    run.save(out / "early.txt")
    os.symlink("/etc/passwd", out / "link.txt")
    print([note.text for note in run.notes()], os.environ["A"])
"""

Cancels = Callable[[RecordingLiveView], AbstractContextManager[None]]


class Job:
    """One attempt at a job, and what it said."""

    def __init__(self, folder: Path, program: str = "", **more: Any) -> None:
        folder.mkdir(exist_ok=True)
        script = folder / "program.py"
        script.write_text(textwrap.dedent(program))
        spec = read_spec("job", {"command": f"{sys.executable} {script}", **more})
        self.reporter, self.live, self.notes = RecordingReporter(), RecordingLiveView(), MemoryNotes()
        self.checkpoints = MemoryCheckpoints()
        work = folder / "workspace"
        work.mkdir()
        self.context = make_context(
            spec, work, reporter=self.reporter, live=self.live, notes=self.notes, checkpoints=self.checkpoints
        )

    def run(self) -> str:
        return run(self.context)

    @property
    def files(self) -> dict[str, bytes]:
        return {each.name: each.path.read_bytes() for each in self.reporter.files}

    @property
    def lines(self) -> str:
        return "\n".join(each.message for each in self.reporter.of(RunLog))


def test_the_last_values_of_metrics_are_summed_up_within_bounds_also_where_a_program_fails(
    tmp_path: Path,
) -> None:
    program = """
        from podfleet import run
        run.summary({"m3": 0.5})
        for step in range(2):
            run.log({"a/b": 1.0, **{f"m{n}": n + step for n in range(40)}}, step)
            run.log({f"m{n}": n + step for n in range(40, 100)}, step)
        raise SystemExit("it fails")
    """
    job = Job(tmp_path, program, env={"PYTHONPATH": str(ROOT)})
    with pytest.raises(PipelineError, match="it fails"):
        job.run()
    said, measured = (each.values for each in job.reporter.of(RunSummarized))
    assert said == {"m3": 0.5}
    assert (len(measured), "m3" in measured, "a/b" in measured) == (62, False, False)
    assert (measured["m0"], measured["m62"]) == (1.0, 63.0)


def test_a_program_has_the_values_of_its_parameters_each_in_one_word(tmp_path: Path) -> None:
    job = Job(tmp_path, 'import os, sys; print(sys.argv[1:], os.environ["A"])')
    command = f"{sys.executable} {tmp_path / 'program.py'} --lr {{lr}} '{{name}} {{{{}}}}'"
    spec = {"command": command, "env": {"A": "<{name}>"}}
    context = replace(job.context, spec=read_spec("job", {**spec, "params": {"lr": 0.1, "name": "a b;'"}}))
    run(context)
    assert job.files["log.txt"].decode() == """['--lr', '0.1', "a b;' {}"] <a b;'>\n"""


def test_a_program_says_measures_and_leaves_what_its_run_keeps(tmp_path: Path) -> None:
    events = number("speed", 3.0, 7)
    encoded = base64.b64encode(events).decode()
    job = Job(tmp_path, SAYS, env={"A": "1", "PYTHONPATH": str(ROOT), "EVENTS": encoded})
    job.notes.write("look at the loss")

    line = job.run()

    assert line.startswith("status 0 after ")
    *metrics, speed = sorted(job.reporter.of(StageMetric), key=lambda each: each.name)
    assert (speed.name, speed.value, speed.step) == ("speed", 3.0, 7)
    assert [(each.stage, each.name, each.step) for each in metrics] == [
        ("train", "loss", n) for n in range(3)
    ]
    assert [each.value for each in metrics] == [1, 0.5, pytest.approx(1 / 3)]
    assert "odd is nan at step 1" in job.lines
    assert [(each.progress, each.activity) for each in job.reporter.of(StageProgress)] == [(0.5, "epoch 1")]
    said, measured = job.reporter.of(RunSummarized)
    assert said.values == {"accuracy": 0.9, "name": "small"}
    last = {"loss": pytest.approx(1 / 3), "speed": 3.0}
    assert measured.values == last, "of what it has summed up in no way"
    row = job.reporter.of(ResultRecorded)[0]
    assert (row.set, row.key, row.values, row.status) == ("epochs", "1", {"loss": 0.5, "best": True}, "done")
    assert job.files == {
        "early.txt": b"early",
        "events.out.tfevents.1": events,
        "deep/model.bin": b"weights",
        "log.txt": b"hello\n['look at the loss'] 1\n",
    }
    assert job.live.text() == job.files["log.txt"].decode()


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        ("import sys; print('no data'); sys.exit(3)", "JOB_FAILED", "status 3: no data"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "JOB_FAILED", "signal 11"),
    ],
)
def test_a_program_that_fails_says_how(tmp_path: Path, program: str, code: str, words: str) -> None:
    job = Job(tmp_path, program)
    with pytest.raises(PipelineError) as failed:
        job.run()
    assert failed.value.code == code
    assert words in failed.value.message
    assert "log.txt" in job.files


def test_a_program_that_the_pod_lacks_is_named(tmp_path: Path) -> None:
    job = Job(tmp_path, command="no-such-program --x")
    with pytest.raises(PipelineError, match="no-such-program") as failed:
        job.run()
    assert failed.value.code == "NO_PROGRAM"


def test_whatever_is_written_into_the_pipe_costs_a_line_in_the_log(tmp_path: Path) -> None:
    lies = r"""
        import os
        pipe = os.open(os.environ["PODFLEET_RUN_PIPE"], os.O_WRONLY)
        for line in (b"nonsense", b"[" * 60_000, b"x" * 400_000, b"\xff\xfe", b'{"do":"steal"}',
                     b'{"do":"save","path":"/etc/passwd","name":"../../x"}',
                     b'{"do":"checkpoint","path":"/etc"}',
                     b'{"do":"result","set":"A b","key":"","values":{}}',
                     b'{"do":"log","values":{"loss":1e999}}', b'{"do":"log","values":{"a":1}}'):
            os.write(pipe, line + b"\n")
    """
    job = Job(tmp_path, lies)

    job.run()

    assert [each.name for each in job.reporter.of(StageMetric)] == ["a"]
    assert [*job.files] == ["log.txt"]
    assert 6 <= job.lines.count("podfleet.run: ") <= 20


def test_what_a_program_leaves_running_ends_with_it(tmp_path: Path) -> None:
    leaves = """
        import os, subprocess, sys
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(left.pid, os.getsid(0), flush=True)
    """
    job = Job(tmp_path, leaves)

    job.run()

    left, session = map(int, job.files["log.txt"].split())
    assert left not in living(session)


def test_a_program_that_is_canceled_hears_of_it_and_leaves_a_checkpoint(
    tmp_path: Path, canceled: Cancels
) -> None:
    stops = """
        from podfleet import run
        import pathlib, signal, sys, time

        def stop(*_):
            pathlib.Path("state.txt").write_text("17")
            run.checkpoint("state.txt")
            run.flush()
            print("stopped", flush=True)
            sys.exit(0)

        signal.signal(signal.SIGTERM, stop)
        print("ready", flush=True)
        time.sleep(600)
    """
    job = Job(tmp_path, stops, env={"PYTHONPATH": str(ROOT)})

    with canceled(job.live), pytest.raises(Canceled):
        job.run()
    assert job.files["log.txt"] == b"ready\nstopped\n"
    assert [*job.checkpoints.kept["job"].files] == ["state.txt"]

    goes_on = "from podfleet import run; print(run.restored().read_text())"
    again = Job(tmp_path / "again", goes_on, env={"PYTHONPATH": str(ROOT)})
    again.checkpoints.found = job.checkpoints.kept
    again.run()
    assert again.files["log.txt"] == b"17\n"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"command": "python 'x"}, "command"),
        ({"command": "  "}, "name a program"),
        ({"command": "x", "env": {"PODFLEET_API_KEY": "1"}}, "set by the run itself"),
        ({"command": "x", "env": {"LD_PRELOAD": "/x.so"}}, "set by the run itself"),
        ({"command": "x", "env": {"CUDA_VISIBLE_DEVICES": "1"}}, "set by the run itself"),
        ({"command": "x", "env": {"1A": "x"}}, "env"),
        ({"command": "x " * 300}, "256 words"),
        ({"command": "x", "network": True}, "choose isolation: sandbox"),
        ({"command": "x", "isolation": "strict"}, "isolation"),
    ],
)
def test_a_command_that_cannot_be_is_refused_with_words(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        read_spec("job", spec)


def test_a_program_may_replace_all_that_its_run_writes(tmp_path: Path) -> None:
    """Its log becomes a named pipe, the folder of its notes and messages a link, and it reads the pipe."""
    replaces = """
        import os, pathlib, shutil, sys, time
        pipe = pathlib.Path(os.environ["PODFLEET_RUN_PIPE"])
        mine = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        log = pathlib.Path(os.environ["PODFLEET_OUTPUT"]).parent / "log.txt"
        print("first", flush=True)
        log.unlink()
        os.mkfifo(log)
        shutil.rmtree(pipe.parent)
        os.symlink("/", pipe.parent)
        for _ in range(20_000):
            try:
                os.write(mine, b"x\\n")
                os.read(mine, 100)
            except BlockingIOError:
                pass
        print("last")
    """
    job = Job(tmp_path, replaces)

    job.run()

    assert job.files["log.txt"] == b"first\nlast\n"


def test_a_daemon_that_keeps_its_output_open_ends_with_the_program(tmp_path: Path) -> None:
    leaves = """
        import os, time
        ready, says = os.pipe()
        if not os.fork():
            os.setsid()
            if not os.fork():
                os.write(says, b"x")
                time.sleep(600)
            os._exit(0)
        os.wait()
        os.read(ready, 1)
        print("main is over", flush=True)
    """
    job = Job(tmp_path, leaves)
    begun_s = CLOCK.monotonic_s()

    job.run()

    assert CLOCK.monotonic_s() - begun_s < READER_S  # nobody had to be waited for
    assert job.files["log.txt"] == b"main is over\n"


def test_a_program_that_is_canceled_is_heard_while_it_ends(tmp_path: Path, canceled: Cancels) -> None:
    stops = """
        import os, pathlib, signal, sys, time

        def stop(*_):
            pipe = os.open(os.environ["PODFLEET_RUN_PIPE"], os.O_WRONLY)
            for _ in range(40):
                os.write(pipe, b'{"do":"log","values":{"a":1}}\\n' * 100)
            print("said", flush=True)
            sys.exit(0)

        signal.signal(signal.SIGTERM, stop)
        print("ready", flush=True)
        time.sleep(600)
    """
    job = Job(tmp_path, stops)
    with canceled(job.live), pytest.raises(Canceled):
        job.run()
    assert job.files["log.txt"] == b"ready\nsaid\n"
    assert len(job.reporter.of(StageMetric)) == 4_000


def test_files_that_cannot_be_kept_cost_a_line_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "OBJECT_BYTES_MAX", 1_000_000)
    leaves = """
        import os, pathlib
        out = pathlib.Path(os.environ["PODFLEET_OUTPUT"])
        checkpoints = os.environ["PODFLEET_RUN_CHECKPOINTS"]
        for name in ("a.txt", "log.txt", "line\\nline", "z.txt"):
            (out / name).write_text(name)
        os.mkfifo(out / "pipe")
        os.symlink("loop", out / "loop")
        (out / "large").touch()
        os.truncate(out / "large", 1_000_001)
        os.symlink("/etc", out / "folder")
        os.symlink("/etc", checkpoints + "/link")
        pipe = os.open(os.environ["PODFLEET_RUN_PIPE"], os.O_WRONLY)
        for name in ("link", "..", "none"):
            os.write(pipe, b'{"do":"checkpoint","path":"%s"}\\n' % f"{checkpoints}/{name}".encode())
        for path in ("/etc/passwd", *(out / each for each in ("folder/passwd", "loop/x", "pipe", "none"))):
            os.write(pipe, b'{"do":"save","path":"%s","name":"x"}\\n' % str(path).encode())
        print("end")
    """
    job = Job(tmp_path, leaves)

    line = job.run()

    assert job.files == {"a.txt": b"a.txt", "z.txt": b"z.txt", "log.txt": b"end\n"}
    assert "2 files kept and 6 not: " in line  # with the pipe, the links and the line
    for name in ("line\\nline", "folder", "pipe", "loop"):
        assert f"'{name}' of the output folder is not kept: " in job.lines
    assert job.lines.count("lies outside of the folders of the run") == 2
    assert "large is not kept: it has 1,000,001 bytes" in job.lines
    assert "pipe is no plain file" in job.lines
    assert "log.txt is kept already" in job.lines
    assert job.lines.count("is no checkpoint of this run") == 3
    assert not job.checkpoints.kept


def test_folders_without_end_cost_a_line_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(output, "LOOKED_AT_MAX", 400)
    nests = """
        import os, pathlib
        pipe = os.open(os.environ["PODFLEET_RUN_PIPE"], os.O_WRONLY)
        begin, made = os.getcwd(), os.environ["PODFLEET_RUN_CHECKPOINTS"]
        in_place_of_the_log = os.environ["HOME"] + "/log.txt"
        for folder in (f"{made}/1", f"{made}/2", os.environ["PODFLEET_OUTPUT"], in_place_of_the_log):
            os.makedirs(folder, exist_ok=True)
            os.chdir(folder)
            pathlib.Path("a.txt").write_text("a")
            if not folder.endswith("2"):
                for _ in range(310):
                    os.mkdir("nested")
                    os.chdir("nested")
            os.chdir(begin)
            if made in folder:
                os.write(pipe, b'{"do":"checkpoint","path":"%s"}\\n' % folder.encode())
        log = pathlib.Path(os.environ["PODFLEET_OUTPUT"]).parent / "log.txt"
        log.unlink()
        os.rename(in_place_of_the_log, log)
        print("end")
    """
    job = Job(tmp_path, nests)
    depth = sys.getrecursionlimit()
    request.addfinalizer(lambda: sys.setrecursionlimit(depth))
    sys.setrecursionlimit(300)  # as many as folders in a path, which may be 2,000

    line = job.run()

    assert job.files == {"a.txt": b"a", "log.txt": b"end\n"}
    assert "1 files kept and 1 not: " in line
    assert [[*each.files] for each in job.checkpoints.kept.values()] == [["a.txt"]]
    assert "a checkpoint without" in job.lines

    many = """
        import os
        os.chdir(os.environ["PODFLEET_OUTPUT"])
        for number in range(410):
            os.mkdir(f"{number}")
    """
    job = Job(tmp_path / "many", many)
    assert "0 files kept and 1 not: " in job.run()
    assert "has more than 400 entries" in job.lines


def test_a_secret_is_in_no_name_of_what_a_program_leaves_and_in_nothing_that_it_says(tmp_path: Path) -> None:
    secret = 'canary-"quoted"-0123'
    tells = """
        import base64, os, pathlib
        from podfleet import run
        secret, out = os.environ["KEY"], pathlib.Path(os.environ["PODFLEET_OUTPUT"])
        run.log({f"loss {secret}": 1.0, "loss": 2.0})
        run.summary({"told": secret})
        run.result("rows", secret, {"value": f"a {secret}"})
        run.progress(0.5, secret)
        (out / secret).mkdir()
        for name in (f"{secret}.txt", f"{secret}/a.txt", "a.txt", f"line\\n{secret}"):
            (out / name).write_text("a")
        (out / "events.out.tfevents.1").write_bytes(base64.b64decode(os.environ["EVENTS"]))
        run.save(out / "a.txt", f"{secret}.bin")
        run.checkpoint(out / f"{secret}.txt")
    """
    events = base64.b64encode(number(f"tag {secret}", 1.0, 1)).decode()
    job = Job(tmp_path, tells, env={"EVENTS": events})
    tools = replace(job.context.tools, variables={"KEY": secret}, secrets=("KEY",))
    job.context = replace(job.context, tools=tools)

    job.run()

    assert "canary" not in "".join(map(str, job.reporter.facts)).replace(events, "")
    assert "canary" not in str(job.checkpoints.kept)
    assert {*job.files} == {"a.txt", "***.bin", "events.out.tfevents.1", "log.txt"}
    assert [each.values for each in job.reporter.of(ResultRecorded)] == [{"value": "a ***"}]
    assert {each.name for each in job.reporter.of(StageMetric)} == {"loss", "loss ***", "tag ***"}
    assert job.lines.count("its name has the value of a secret") == 4


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_secret_is_hidden_wherever_its_pieces_are_cut(size: int) -> None:
    secrets = Secrets(["hidden-value", "two\nlines!", "abc"])
    data = b"\xff hidden-value hidden-valu two\r\n\nlines! abc hhidden-valuehidd"

    pieces = [secrets.masked(data[at : at + size]) for at in range(0, len(data), size)]

    assert b"".join(pieces) + secrets.rest() == b"\xff *** hidden-valu two\r\n\n*** abc h***hidd"


def test_of_much_that_is_printed_in_a_moment_the_first_and_the_last_part_are_shown(tmp_path: Path) -> None:
    shown: list[str] = []
    output = Output(tmp_path / "log.txt", shown.append, CLOCK, Secrets([]))
    data = b"first\n" + b"x" * (8 << 20) + b"\nlast"

    output.take(io.BytesIO(data))
    output.finish()

    text = "".join(shown)
    assert (tmp_path / "log.txt").read_bytes() == data
    assert text.startswith("first\nxxx")
    assert text.endswith("x\nlast")
    assert "characters are in the file alone" in text
    assert len(text) < len(data)
