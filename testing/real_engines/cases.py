"""What every engine has to do, whichever program it is: each case raises `AssertionError` where it does not.

The cases of `LIVE` share one engine that is served; those of `STARTS` start their own. A case returns words
for people, such as figures; it raises `Unfit` where the engine has nothing that it could be held to.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from events.models.engine import Engine, listed_names
from events.models.parameter import Value
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import PipelineError
from events.text.traffic import read_scenarios
from stages.adapters.models.opening import open_endpoint, served_endpoint
from stages.engines.failure import EngineFailed
from stages.engines.load.measuring import measure
from stages.engines.load.plan import Load, Target
from stages.engines.processes import LOOPBACK, is_free, living
from stages.engines.running import ServingLimits
from stages.engines.serving import Served, serve
from stages.models.model import Question

CLOCK, IDS = SystemClock(), SystemIds()
ROOT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 60.0
TOKENS: Final = 12
SLOTS: Final = 2
CONTEXT: Final = 2_048
SAYS: Final = Question(
    purpose="answer", system="", text="Write a long story about a fox.", temperature=0.0, tokens_max=TOKENS
)
TRAFFIC: Final = "D(50,16)"
REQUESTS: Final = 8


class Unfit(Exception):
    """The engine has nothing that the case could look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """An engine with a model, as this machine has them; `is_exact` where greedy answers never differ."""

    engine: Engine
    model: Path | str
    name: str = "smollm2"
    image: str = ""
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    gpus: int = 0
    ready_s: float = 300.0
    is_exact: bool = True

    def serving(
        self,
        folder: Path,
        *,
        model: Path | str | None = None,
        parameters: Mapping[str, Value] | None = None,
        port: int | None = None,
    ) -> AbstractContextManager[Served]:
        """Serve the model, or another one; files go into the folder."""
        return serve(
            self.engine, model or self.model, parameters or {}, port, name=self.name, folder=folder,
            clock=CLOCK, ids=IDS, gpus=self.gpus, image=self.image, pod="real-engines",
            environment=self.environment, limits=ServingLimits(ready_s=self.ready_s),
        )  # fmt: skip

    def two_slots(self) -> dict[str, Value]:
        """Return the parameters of the engine that the live cases share."""
        return self.engine.sized(SLOTS, CONTEXT)


def answers_with_its_own_count(setup: Setup, found: Served) -> str:
    """Answer more requests at once than it has slots, each with the tokens that were asked for."""
    model = open_endpoint(served_endpoint(found.name, found.url), clock=CLOCK, ids=IDS)
    with closing(model), ThreadPoolExecutor(2 * SLOTS) as asking:
        answers = list(asking.map(model.ask, [SAYS] * 2 * SLOTS))
    assert model.name == found.name
    assert all(each.text for each in answers), "an answer is empty"
    assert not setup.is_exact or len({each.text for each in answers}) == 1, "greedy answers are one"
    counted = [(each.is_cut_off, each.usage.completion_tokens) for each in answers]
    assert counted == [(True, TOKENS)] * len(answers), f"it counts {counted}"
    assert len({each.usage.prompt_tokens for each in answers}) == 1, "one prompt is counted differently"
    assert found.ended() is None
    return f"{TOKENS} tokens of {len(answers)} answers at once"


def lists_its_alias(setup: Setup, found: Served) -> str:
    """List the names that it was given, and the context that each request has."""
    if setup.engine.proof == "listener":
        raise Unfit("it takes no alias")
    listed = httpx.get(f"{found.url.removesuffix(setup.engine.api)}{setup.engine.listing}", trust_env=False)
    names = listed_names(listed.json())
    assert {found.alias, found.name} <= {*names}, f"it lists {names}"
    if setup.engine.is_context_shared:
        meta = listed.json()["data"][0].get("meta") or {}
        assert meta.get("n_ctx") == CONTEXT, f"each request has {CONTEXT} tokens of context; it says {meta}"
    return ", ".join(names)


def has_metrics(setup: Setup, found: Served) -> str:
    """Tell metrics of its tokens."""
    if not found.metrics_url:
        raise Unfit("it has no metrics")
    told = httpx.get(found.metrics_url, trust_env=False)
    assert told.status_code == httpx.codes.OK, f"status {told.status_code}"
    assert "tokens" in told.text
    return f"{len(told.text.splitlines())} lines"


def is_measured_under_load(setup: Setup, found: Served) -> str:
    """Answer every request of a small load, and stream."""
    (scenario,) = read_scenarios(TRAFFIC)
    load = Load(scenario=scenario, concurrency=SLOTS, requests=REQUESTS, limit_s=LIMIT_S, warmup=1)
    target = Target(base_url=found.url, model=found.name, takes_ignore_eos=setup.engine.takes_ignore_eos)
    told = measure(target, load, clock=CLOCK, canceled=lambda: False)
    assert (told.requests, told.errors) == (REQUESTS, 0), f"{dict(told.failures)}: {dict(told.said)}"
    values = told.values()
    return (
        f"{values['tokens_out_per_s']:.1f} tokens/s, first token {values['ttft_p50_s'] * 1000:.0f} ms, "
        f"tokens by {told.tokens_from}"
    )


def an_abandoned_stream_keeps_nothing_alive(setup: Setup, folder: Path) -> None:
    """End, with all that it started, in the middle of an answer; meanwhile its port is taken."""
    with ExitStack() as stack, setup.serving(folder) as found:
        body = {
            "model": found.name, "messages": [{"role": "user", "content": "Count."}], "stream": True,
            "max_tokens": CONTEXT // 2, **({"ignore_eos": True} if setup.engine.takes_ignore_eos else {}),
        }  # fmt: skip
        connection = http.client.HTTPConnection(LOOPBACK, found.port, timeout=LIMIT_S)
        stack.callback(connection.close)  # after the engine has ended
        connection.request(
            "POST", f"{setup.engine.api}/chat/completions", json.dumps(body),
            {"content-type": "application/json"},
        )  # fmt: skip
        first = connection.getresponse().readline()
        assert first.startswith(b"data: "), first[:500]
        assert not is_free(found.port)
        refused = _refusal(lambda: setup.serving(folder, port=found.port))
        assert refused is not None, "it was served at a port that is taken"
        assert "listens at port" in refused.message
    assert (living(found.pid), is_free(found.port)) == ([], True)
    found.stop()
    assert found.ended() is not None


def imports_nothing_from_the_folder(setup: Setup, folder: Path) -> None:
    """Start whatever lies in the folder of its run."""
    (folder / "argparse.py").write_text("raise SystemExit(7)")
    with setup.serving(folder) as found:
        assert found.ended() is None


def says_why_weights_are_none(setup: Setup, folder: Path) -> str:
    """Fail with its whole log, whose end is in the failure."""
    if setup.engine.weights == "library":
        raise Unfit("it loads a model with its first request")
    bad = folder / "bad.gguf"
    if setup.engine.weights == "file":
        bad.write_bytes(b"GGUF" + bytes(100))
    else:
        bad.mkdir()
        (bad / "config.json").write_text("{}")
    failed = _refusal(lambda: setup.serving(folder, model=bad))
    assert isinstance(failed, EngineFailed), f"it was served: {failed}"
    assert failed.code == "ENGINE_FAILED"
    assert failed.log.stat().st_size > 0
    assert failed.log.read_text().splitlines()[-1].strip() in failed.message
    return failed.advice.code if failed.advice else "no advice"


def ends_with_the_process_that_started_it(setup: Setup, folder: Path) -> None:
    """End when the process that serves it is killed."""
    told = {
        "engine": setup.engine.name, "model": str(setup.model), "name": setup.name, "image": setup.image,
        "environment": None if setup.environment is None else dict(setup.environment),
        "gpus": setup.gpus, "ready_s": setup.ready_s, "folder": str(folder),
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "testing.real_engines.owner"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        owner.stdin.write(json.dumps(told) + "\n")
        owner.stdin.flush()
        try:
            said = owner.stdout.readline().split()
            assert len(said) == 2, "it was not served"
            pid, port = map(int, said)
            assert living(pid)
        finally:
            owner.kill()
    until(lambda: not living(pid) and is_free(port))


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so. Raises `AssertionError` after a minute."""
    until_s, never = CLOCK.monotonic_s() + LIMIT_S, threading.Event()
    while not is_so():
        assert CLOCK.monotonic_s() < until_s, "it takes more than a minute"
        CLOCK.wait(never, 0.02)


def _refusal(serving: Callable[[], AbstractContextManager[Served]]) -> PipelineError | None:
    """Return how it was not served, None where it was."""
    try:
        with serving():
            return None
    except PipelineError as error:
        return error


Live = Callable[[Setup, Served], str]
Start = Callable[[Setup, Path], str | None]
LIVE: Final[Sequence[Live]] = (answers_with_its_own_count, lists_its_alias, has_metrics)
UNDER_LOAD: Final[Sequence[Live]] = (is_measured_under_load,)
STARTS: Final[Sequence[Start]] = (
    an_abandoned_stream_keeps_nothing_alive,
    imports_nothing_from_the_folder,
    says_why_weights_are_none,
    ends_with_the_process_that_started_it,
)
