"""Engines of served models: rows by the real engine, by its double, and programs that misbehave in its place.

What has no engine here (vLLM, SGLang, Ollama and others) is held by its recorded command line alone
(`tests/unit/stages/engines`); where a pod has its program, its row passes this suite as the others do.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from events.models.engine import Engine
from events.models.engines import XLLAMACPP
from events.models.rows.command import commanded
from events.runtime.errors import PipelineError
from events.testing import ManualClock
from pod_worker.machine.gpu import Gpu
from stages.engines.failure import EngineFailed
from stages.engines.processes import free_port, is_free, living
from stages.engines.running import ServingLimits, log_of
from stages.engines.serving import Served, serve
from stages.engines.weights import located
from testing.engine_double.row import DOUBLE, misbehaving
from testing.real_engines import cases, found
from testing.real_engines.__main__ import main
from testing.real_engines.cases import CLOCK, IDS, LIMIT_S, LIVE, STARTS, Live, Setup, Start, until
from testing.real_engines.found import KNOWN

ENGINES = {each.name: each for each in (XLLAMACPP, DOUBLE)}


def served(engine: Engine, folder: Path, *, weights: Path | None = None, **more: Any) -> Any:
    model = weights or located("smollm2")
    return serve(
        engine, model, more.pop("parameters", {}), more.pop("port", None), name="smollm2", folder=folder,
        clock=CLOCK, ids=IDS, **more,
    )  # fmt: skip


def setup_of(engine: Engine) -> Setup:
    return Setup(engine=engine, model=located("smollm2"))


@pytest.fixture(scope="module", params=ENGINES.values(), ids=ENGINES.keys())
def real(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Setup, Served]]:
    """A real engine with two slots, as long as the live cases of its row take."""
    setup = setup_of(request.param)
    with setup.serving(tmp_path_factory.mktemp("engine"), parameters=setup.two_slots()) as found:
        yield setup, found


@pytest.mark.parametrize("case", LIVE, ids=[each.__name__ for each in LIVE])
def test_an_engine_that_is_served(
    real: tuple[Setup, Served], case: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert case(*real)


@pytest.mark.parametrize("case", STARTS, ids=[each.__name__ for each in STARTS])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_an_engine_that_starts(engine: Engine, case: Start, tmp_path: Path) -> None:
    case(setup_of(engine), tmp_path)


def test_a_pod_holds_its_engines_to_the_same_cases(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["double", "--model", "smollm2", "--case", "is_measured_under_load"]
    assert main(words, {}) == 0
    starts, load, ends, total = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"double starts: ok \(\d+\.\d s\)", starts)
    assert re.match(r"double is_measured_under_load: ok: \d+\.\d tokens/s, first token \d+ ms", load)
    assert (ends[:15], total) == ("double ends: ok", "0 failed")

    silent = replace(misbehaving("--dies-at=2"), is_context_shared=True)
    monkeypatch.setitem(KNOWN, "double", silent)  # type: ignore[arg-type]  # it is a dict
    assert main([*words, "--case", "lists_its_alias"], {}) == 1
    _, lists, load, _, total = capsys.readouterr().out.splitlines()
    assert "FAILED: AssertionError: each request has 2048 tokens of context; it says {}" in lists
    assert load.startswith("double is_measured_under_load: FAILED: AssertionError: {")
    assert total == "2 failed"
    for engines in ([], ["vllm", "sglang"]):
        with pytest.raises(SystemExit):
            main([*engines, "--image", "x:1"], {})
        assert "--image is that of one engine: name it" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["vlm"], {})
    assert "there is no engine vlm; there are xllamacpp" in capsys.readouterr().err


def test_an_engine_in_an_image_has_the_gpus_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = (Gpu("a", 1.0), Gpu("a", 1.0))
    monkeypatch.setattr(found, "open_driver", lambda: SimpleNamespace(gpus=lambda: gpus))
    monkeypatch.setattr(cases, "serve", lambda *_, **given: given)
    setup = found.setup_of("double", {}, model="smollm2", image="x:1", ready_s=1.0)
    assert dict(setup.serving(tmp_path))["gpus"] == 2  # type: ignore[call-overload]  # what it was given


LEAVING = """
import sys, threading
from pathlib import Path
from tests.contract.test_engines import fake, served
with served(fake("stays"), Path(sys.argv[1])) as found:
    print(found.pid, found.port, flush=True)
    threading.Event().wait()
"""


def test_who_left_the_group_of_an_engine_ends_with_its_owner(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVING, str(tmp_path)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert owner.stdout is not None
    pid, port = map(int, owner.stdout.readline().split())
    assert len(living(pid)) == 3, "itself, its guard, and who left the group"
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until(lambda: not living(pid) and is_free(port))


FAKE = """
import http.server, json, os, signal, subprocess, sys
how, port, alias = sys.argv[1], int(sys.argv[2]), sys.argv[3]
print("fake:", how, "OPENAI_API_KEY" in os.environ, flush=True)
if how == "exits":
    sys.exit(3)
if how == "stays":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["/bin/sleep", "600"], process_group=0)
if how == "writes":
    with open("large", "wb") as file:
        file.write(bytes(200_000))
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"[" * 100_000 if how == "nests" else json.dumps({"data": [{"id": alias}]}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", port), Answers).serve_forever()
"""


def fake(how: str, alias: str = "{alias}") -> Engine:
    command = ("{python}", "-c", FAKE.replace("{", "{{").replace("}", "}}"), how, "{port}", alias)
    return replace(XLLAMACPP, name=how, command=command, needs="json", parameters=())


def test_what_ignores_sigterm_and_leaves_its_group_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-an-engine")
    with served(fake("stays"), tmp_path, limits=ServingLimits(term_s=0.2)) as found:
        assert len(living(found.pid)) == 3, "itself, its guard, and who left the group"
    assert (living(found.pid), is_free(found.port)) == ([], True)
    assert found.log.read_text() == "fake: stays False\n"


@pytest.mark.parametrize(
    ("how", "alias", "why"),
    [
        ("exits", "{alias}", r"exits ended \(status 3\): fake: exits"),
        ("strange", "somebody", "strange was not ready within 0 s"),
        ("nests", "{alias}", "nests was not ready within 0 s"),
        ("writes", "{alias}", r"writes ended \(status 1\)"),
    ],
)
def test_what_is_not_ours_or_does_not_start_is_named(tmp_path: Path, how: str, alias: str, why: str) -> None:
    limits = ServingLimits(ready_s=0.4, file_bytes=100_000)
    if how in ("exits", "writes"):
        limits = replace(limits, ready_s=LIMIT_S)
    with pytest.raises(EngineFailed, match=why), served(fake(how, alias), tmp_path, limits=limits):
        pytest.fail("it was not ready")


def test_an_engine_has_no_more_memory_and_cores_than_it_may(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    bounds = ServingLimits(memory_bytes=150 << 20, cores=1)
    with served(misbehaving("--holds-mib=20"), tmp_path, limits=bounds) as found:
        assert len(os.sched_getaffinity(found.pid)) == 1
        assert os.sched_getaffinity(0) == before
        assert found.ended() is None
    killed = r"double ended \(signal 9; killed for memory, "
    too_large = rf"{killed}of which it had 0\.[123]\d GiB and memory_gib allows 0\.15 GiB\)"
    with (
        pytest.raises(EngineFailed, match=f"Memory ran out: .*{too_large}") as caught,
        served(misbehaving("--holds-mib=250", "--never-ready"), tmp_path, limits=bounds),
    ):
        pytest.fail("it had more than it may")
    assert caught.value.advice is not None
    assert caught.value.advice.code == "OUT_OF_MEMORY"
    with (
        pytest.raises(PipelineError, match=r"4096 cores are wanted, and this pod has \d+") as refused,
        served(DOUBLE, tmp_path, limits=ServingLimits(cores=4_096)),
    ):
        pytest.fail("no machine has as many")
    assert (refused.value.code, refused.value.retryable) == ("CONFIG", True), "its pod is not at fault"


def test_an_engine_that_dies_later_says_so(tmp_path: Path) -> None:
    with served(fake("dies"), tmp_path) as found:
        os.kill(found.pid, signal.SIGKILL)
        until(lambda: found.ended() is not None)
        assert str(found.ended()).startswith("dies ended (signal 9): fake: dies")


def test_who_takes_the_port_is_not_taken_for_gone(tmp_path: Path) -> None:
    """Somebody still listens there, as a daemon would that left the session: that is said."""
    with (
        socket.socket() as stranger,
        pytest.raises(EngineFailed, match="who listens at port"),
        served(fake("plain"), tmp_path, limits=ServingLimits(kill_s=0.3)) as found,
    ):
        take_over(stranger, found)


def take_over(stranger: socket.socket, found: Served) -> None:
    """Kill an engine, and listen in its place."""
    os.kill(found.pid, signal.SIGKILL)
    until(lambda: is_free(found.port))
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stranger.bind(("127.0.0.1", found.port))
    stranger.listen()


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (replace(XLLAMACPP, needs="no_such_engine"), "pip install 'podfleet[serving]'"),
        (replace(DOUBLE, needs="no-such-program", needs_is="program"), "needs the program 'no-such-program'"),
    ],
)
def test_without_the_engine_nothing_starts(tmp_path: Path, engine: Engine, why: str) -> None:
    with pytest.raises(PipelineError) as caught, served(engine, tmp_path, port=free_port()):
        pytest.fail("it was not there")
    assert (caught.value.code, list(tmp_path.iterdir())) == ("NOT_AVAILABLE", [])
    assert why in caught.value.message


@pytest.mark.parametrize("model", ["--host=0.0.0.0", "a\nb", ""])
def test_a_model_is_no_option(tmp_path: Path, model: str) -> None:
    with (
        pytest.raises(PipelineError, match="a model is one line that does not begin with"),
        serve(DOUBLE, model, {}, name="x", folder=tmp_path, clock=CLOCK, ids=IDS),
    ):
        pytest.fail("it was taken")


ASKED = "{python} -P -m testing.engine_double --port {port} --model {model}"


def test_a_server_without_an_alias_is_known_by_who_listens(tmp_path: Path) -> None:
    """Its health and its listing are right at a stranger's, too: the listener has to be of its session."""
    listener = replace(commanded(ASKED), needs="")
    (tmp_path / "own").mkdir()
    with served(listener, tmp_path / "own", parameters={"slots": 2, "flash": True}) as found:
        assert (found.name, found.ended()) == (str(located("smollm2")), None)
    strange = replace(listener, name="strange", command=("{python}", "-c", STRANGE, "{port}"))
    (tmp_path / "other").mkdir()
    limits = ServingLimits(ready_s=1.0)
    with (
        pytest.raises(EngineFailed, match="strange was not ready"),
        served(strange, tmp_path / "other", limits=limits),
    ):
        pytest.fail("who listens is of another session")


# Who listens has a session of its own, as a server has that was there before; it ends when its parent does.
STRANGE = """
import os, socket, sys, time
reads, writes = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.close(writes)
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
        os.read(reads, 1)
    os._exit(0)
time.sleep(600)
"""


def test_the_log_of_one_that_is_not_ready_is_told(tmp_path: Path) -> None:
    clock, lines = ManualClock(), list[str]()
    with (
        pytest.raises(EngineFailed, match="not ready within 400 s: double: ") as caught,
        serve(
            misbehaving("--never-ready"), located("smollm2"), {}, name="x", folder=tmp_path,
            clock=Patient(clock, log_of(tmp_path)), ids=IDS, say=lines.append,
            limits=ServingLimits(ready_s=400, kill_s=10_000),
        ),
    ):  # fmt: skip
        pytest.fail("it is never ready")
    assert caught.value.is_late
    assert [each.partition(";")[0] for each in lines if "not ready" in each] == [
        f"double is not ready after {at} s" for at in (60, 120, 300)
    ]
    assert "double: {'slots': 4" in lines[-1]


class Patient:
    """A clock on which much time passes while a little does, once a log has begun."""

    def __init__(self, clock: ManualClock, log: Path) -> None:
        self.now, self.monotonic_s, self._clock, self._log = clock.now, clock.monotonic_s, clock, log
        self._waits_left = 1_200

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        self._waits_left -= 1
        if self._log.stat().st_size or self._waits_left < 0:
            self._clock.advance(400 * seconds)
        return flag.wait(seconds)


@pytest.mark.parametrize(
    ("parameters", "code", "words"),
    [
        ({"slots": 64, "batch": 4_096}, "OUT_OF_MEMORY", "Memory ran out: lower the context"),
        ({"cache": "q8", "flash": False}, None, "cache is quantised, which needs flash"),
    ],
)
def test_what_cannot_be_served_says_what_to_do(
    tmp_path: Path, parameters: dict[str, Any], code: str | None, words: str
) -> None:
    with pytest.raises(PipelineError) as caught, served(DOUBLE, tmp_path, parameters=parameters):
        pytest.fail("it was served")
    assert words in caught.value.message
    found = caught.value.advice if isinstance(caught.value, EngineFailed) else None
    assert (found and found.code) == code


def test_an_engine_that_dies_in_a_request_leaves_its_whole_log_without_secrets(tmp_path: Path) -> None:
    environment = {"HF_TOKEN": "hf_abcdefghijkl", "HTTPS_PROXY": "http://me:pass-word-1@10.0.0.1:3128"}
    lines: list[str] = []
    dies = replace(
        misbehaving("--dies-at=2"), command=("/bin/sh", "-c", TELLING, *misbehaving("--dies-at=2").command)
    )
    with served(dies, tmp_path, environment=environment, say=lines.append) as found:
        body = {"messages": [{"role": "user", "content": "a b"}], "max_tokens": 5}
        assert httpx.post(f"{found.url}/chat/completions", json=body, trust_env=False).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.post(f"{found.url}/chat/completions", json=body, trust_env=False)
        until(lambda: found.ended() is not None)
        assert "Segmentation fault" in str(found.ended())
        assert "hf_abcdefghijkl" not in str(found.ended())
    log = found.log.read_text()
    assert "token ***, proxy http://" in log
    assert "\ufffd" in log, "what is no text is replaced"
    assert not any("pass-word-1" in each or "hf_abc" in each for each in (*lines, log))
    assert lines[0].endswith("has HTTPS_PROXY=http://***@10.0.0.1:3128, HF_TOKEN=***")


TELLING = r"""printf 'token %s, proxy %s \377\n' "$HF_TOKEN" "$HTTPS_PROXY"; exec "$0" "$@" """
