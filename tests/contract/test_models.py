"""Both adapters of language models against a server that misbehaves, and a real one where there is one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from events.catalog import RunUsage
from events.kinds.declaring.fact import Fact
from events.models.providers import PROVIDERS
from events.runtime.clock import Clock, SystemClock
from events.runtime.errors import PipelineError
from events.testing import ManualClock, SeededIds
from stages.adapters.models.opening import Endpoint, OpenModel, open_endpoint, open_model
from stages.adapters.models.retrier import Retrier
from stages.models.budget import Budget
from stages.models.metered import Metered
from stages.models.model import Answer, Model, ModelError, Question, QuestionCanceled
from stages.models.prices import Prices
from tests.integration.programs.model_server import (
    REAL_ENDPOINT,
    ModelServer,
    Reply,
    broken_off,
    cut_off,
    failing,
    late,
    malformed,
    out_of_quota,
    rate_limited,
    unauthorised,
    without_usage,
)

KEY = "sk-secret-of-a-test-0123456789"
QUESTION = Question(purpose="draft", system="Be brief.", text="Say hello to everybody here.", temperature=0.3)
OPEN_S = 30.0  # longer than any test of a limit may take


@dataclass(frozen=True)
class Provider:
    """One API: how its address is named, and its adapter."""

    name: str

    def environ(self, server: ModelServer, **more: str) -> dict[str, str]:
        address = server.openai_url if self.name == "OPENAI" else server.url
        return {
            f"{self.name}_API_KEY": KEY,
            f"{self.name}_BASE_URL": address,
            f"{self.name}_MODEL": "m",
            "PODFLEET_PRIVATE_HOSTS": "127.0.0.1",
        } | more

    def open(
        self,
        server: ModelServer,
        *,
        clock: Clock | None = None,
        stop: threading.Event | None = None,
        request_max_s: float = OPEN_S,
        total_max_s: float = 3 * OPEN_S,
    ) -> OpenModel:
        """Return a model with limits of the test's own."""
        model = open_model(self.environ(server), clock=clock or SystemClock(), ids=SeededIds())
        assert model is not None
        model.retrier = Retrier(  # type: ignore[attr-defined]
            clock=clock or SystemClock(),
            ids=SeededIds(),
            stop=stop or threading.Event(),
            request_max_s=request_max_s,
            total_max_s=total_max_s,
        )
        return model


@pytest.fixture(params=["OPENAI", "ANTHROPIC"])
def provider(request: pytest.FixtureRequest) -> Provider:
    return Provider(request.param)


@pytest.fixture(autouse=True)
def closed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test has opened."""
    opened: list[OpenModel] = []

    def noted(endpoint: Endpoint, **options: Any) -> OpenModel:
        opened.append(open_endpoint(endpoint, **options))
        return opened[-1]

    monkeypatch.setattr("stages.adapters.models.opening.open_endpoint", noted)
    yield
    for model in opened:
        model.close()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of these tests are on loopback, whatever the machine's own network needs."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def failure(model: Model, question: Question = QUESTION) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model.ask(question)
    return caught.value


def tokens(answer: Answer) -> tuple[int | None, int | None]:
    return answer.usage.prompt_tokens, answer.usage.completion_tokens


def test_a_question_is_asked_as_it_stands_and_its_answer_counted(provider: Provider) -> None:
    with ModelServer([Reply(text="hello all of you")]) as server:
        answer = provider.open(server).ask(QUESTION)
    (asked,) = server.asked
    assert (asked.system, asked.text, asked.model) == (QUESTION.system, QUESTION.text, "m")
    assert asked.body["temperature"] == 0.3
    assert asked.body["max_tokens"] == QUESTION.tokens_max
    assert answer.text == "hello all of you"
    assert tokens(answer) == (server.billed.prompt_tokens, server.billed.completion_tokens) == (7, 4)
    assert not answer.is_cut_off
    assert answer.billed_before == ()
    assert answer.usage.seconds > 0


def test_an_answer_that_is_cut_off_says_so(provider: Provider) -> None:
    with ModelServer([cut_off("hello al"), cut_off("")]) as server:
        model = provider.open(server)
        assert (model.ask(QUESTION).text, model.ask(QUESTION).is_cut_off) == ("hello al", True)


@pytest.mark.parametrize(
    "step",
    [
        rate_limited("0"),
        rate_limited(None, retry_after_ms="5"),
        failing(500),
        failing(502),
        failing(503, "loading"),
        failing(529, "overloaded"),
        malformed(),
        malformed(b""),
        malformed(b"[" * 100_000),
        malformed(b'{"choices": [], "content": 3}'),
        malformed(b'{"usage": {"prompt_tokens": -1, "input_tokens": "many"}}'),
        malformed(b"\xff\xfe\xfd"),
        Reply(body=b"<html>busy</html>", content_type="text/html"),
        broken_off(),
        Reply(text=""),
        Reply(text=" \n"),
    ],
    ids=lambda step: f"{step.status}-{step.body!r:.20}-{step.text!r}-{step.cut_after}",
)
def test_what_passes_is_tried_again(provider: Provider, step: Reply) -> None:
    with ModelServer([step, Reply(text="here")]) as server:
        answer = provider.open(server, clock=ManualClock()).ask(QUESTION)
    assert answer.text == "here"
    assert len(server.asked) == 2
    was_maybe_billed = step.status == 200
    assert len(answer.billed_before) == was_maybe_billed


@pytest.mark.parametrize(
    ("step", "trouble", "tries"),
    [
        (unauthorised(), "unauthorised", 1),
        (failing(403, "not for you"), "unauthorised", 1),
        (out_of_quota(), "quota", 1),
        (failing(402, "pay"), "quota", 1),
        (failing(400, "your prompt is too long"), "refused", 1),
        (failing(404, "no such model"), "refused", 1),
        (Reply(finish="refused", text=""), "refused", 1),
        (Reply(status=307, headers={"location": "http://elsewhere.invalid/"}), "refused", 1),
        (rate_limited("0"), "rate_limited", 8),
        (rate_limited("86400"), "rate_limited", 1),
        (failing(500), "unreachable", 4),
        (broken_off(), "unreachable", 4),
        (malformed(), "unreachable", 4),
        (Reply(body=b"<!doctype html><title>Sign in</title>"), "unreachable", 4),
        (Reply(body=b"{" + b" " * (9 << 20) + b"}"), "unreachable", 4),
        (Reply(headers={"content-encoding": "gzip"}), "unreachable", 4),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_each_failure_ends_after_its_tries_and_has_its_name(
    provider: Provider, step: Reply, trouble: str, tries: int
) -> None:
    with ModelServer(lambda _: step) as server:
        error = failure(provider.open(server, clock=ManualClock()))
    assert (error.trouble, len(server.asked)) == (trouble, tries), error.message
    assert error.message
    assert KEY not in error.message


def test_a_server_that_is_not_there_costs_nothing(provider: Provider) -> None:
    with ModelServer() as server:
        model = provider.open(server, clock=ManualClock())
    error = failure(model)
    assert error.trouble == "unreachable"
    assert error.usages == ()


def test_the_wait_that_a_server_asks_for_is_kept(provider: Provider) -> None:
    clock = ManualClock()
    with ModelServer([rate_limited("20"), rate_limited("20"), Reply()]) as server:
        provider.open(server, clock=clock).ask(QUESTION)
    assert 40 <= clock.monotonic_s() <= 42


def test_waits_and_tries_together_stay_below_the_limit(provider: Provider) -> None:
    clock = ManualClock()
    with ModelServer(lambda _: rate_limited("200")) as server:
        error = failure(provider.open(server, clock=clock, total_max_s=900))
    assert error.trouble == "rate_limited"
    assert clock.monotonic_s() < 900
    assert len(server.asked) == 5


def test_a_late_answer_is_left_and_perhaps_billed(provider: Provider, until: Callable[..., None]) -> None:
    with ModelServer(lambda _: late(OPEN_S)) as server:
        begun_s = SystemClock().monotonic_s()
        error = failure(provider.open(server, request_max_s=1.0))
        assert SystemClock().monotonic_s() - begun_s < OPEN_S
        until(lambda: len(server.asked) == 2)  # whoever gives up may do so before the server has read it
    assert error.trouble == "timed_out"
    assert [(usage.prompt_tokens, usage.completion_tokens) for usage in error.usages] == [(None, None)] * 2


def test_a_request_that_is_not_paid_for_is_not_sent(provider: Provider) -> None:
    with ModelServer(lambda _: malformed()) as server:
        error = failure(provider.open(server, clock=ManualClock()), replace(QUESTION, requests_max=1))
    assert len(server.asked) == len(error.usages) == 1
    assert "no further request is paid for" in error.message


def test_an_answer_that_drips_does_not_hold_a_question_for_ever(provider: Provider) -> None:
    with ModelServer(lambda _: Reply(drip_s=0.1)) as server:
        begun_s = SystemClock().monotonic_s()
        error = failure(provider.open(server, request_max_s=1.0))
        assert SystemClock().monotonic_s() - begun_s < OPEN_S
    assert error.trouble == "timed_out"


def test_the_limit_of_a_question_bounds_each_of_its_tries(
    provider: Provider, until: Callable[..., None]
) -> None:
    with ModelServer(lambda _: late(OPEN_S)) as server:
        begun_s = SystemClock().monotonic_s()
        failure(provider.open(server, request_max_s=OPEN_S, total_max_s=0.5))
        assert SystemClock().monotonic_s() - begun_s < OPEN_S / 2
        until(lambda: server.asked)
    assert len(server.asked) == 1


@pytest.mark.parametrize("parameter", ["temperature", "max_completion_tokens"])
def test_a_parameter_that_a_model_does_not_know_is_left_out_from_then_on(
    provider: Provider, parameter: str
) -> None:
    refused = "max_tokens" if parameter == "max_completion_tokens" else parameter
    if provider.name == "ANTHROPIC" and parameter != "temperature":
        pytest.skip("this API has one name for it")

    def answer(asked: object) -> Reply:
        if refused in asked.body:  # type: ignore[attr-defined]
            return failing(
                400, f"Unsupported parameter: '{refused}', use {parameter}", "unsupported_parameter"
            )
        return Reply()

    with ModelServer(answer) as server:
        model = provider.open(server)
        model.ask(QUESTION)
        model.ask(QUESTION)
    assert [refused in asked.body for asked in server.asked] == [True, False, False]


def test_a_server_that_refuses_whatever_is_left_out_is_refused_in_the_end(provider: Provider) -> None:
    words = "temperature, max_tokens and max_completion_tokens are not supported"
    with ModelServer(lambda _: failing(400, words)) as server:
        error = failure(provider.open(server))
    assert error.trouble == "refused"
    assert len(server.asked) <= 4


def test_odd_text_can_be_carried_both_ways(provider: Provider) -> None:
    odd = Question(purpose="draft", system="\ud800", text="a\0b\udfff", temperature=0.0)
    with ModelServer([Reply(text="x\ud800y\0z é 👀")]) as server:
        answer = provider.open(server).ask(odd)
    assert answer.text == "x?y\ufffdz é 👀"
    answer.text.encode()


def test_a_server_that_does_not_count_is_not_counted_for(provider: Provider) -> None:
    with ModelServer([without_usage("fine")]) as server:
        answer = provider.open(server).ask(QUESTION)
    assert tokens(answer) == (None, None)


def test_no_part_of_the_key_is_told(provider: Provider) -> None:
    with ModelServer(lambda _: unauthorised(quoting=KEY)) as server:
        model = provider.open(server)
        error = failure(model)
    assert "sk-" not in error.message
    assert f"{provider.name}_API_KEY" in error.message
    assert KEY not in repr(model)
    with ModelServer(lambda _: failing(400, f"bad request with key {KEY}")) as server:
        assert "sk-" not in failure(provider.open(server)).message


def test_the_sum_of_the_events_is_the_servers_own_count(provider: Provider) -> None:
    chance = random.Random(5)
    odd: list[Callable[[], Reply]] = [
        rate_limited, failing, out_of_quota, lambda: Reply(text=""), lambda: cut_off("a b c"),
        lambda: Reply(finish="refused", text="no no"), lambda: failing(400, "wrong"),
    ]  # fmt: skip

    def answer(_: object) -> Reply:
        return chance.choice(odd)() if chance.random() < 0.5 else Reply(text="w " * chance.randrange(1, 50))

    facts: list[Fact] = []
    with ModelServer(answer) as server:
        clock = ManualClock()
        limits = Budget(clock=clock)
        model = Metered(provider.open(server, clock=clock), limits, Prices({}), facts.append)
        answered = sum(_is_answered(model) for _ in range(40))
    assert 0 < answered < 40
    usages = [fact for fact in facts if isinstance(fact, RunUsage)]
    assert len(usages) == server.billed.requests
    assert sum(fact.prompt_tokens or 0 for fact in usages) == server.billed.prompt_tokens
    assert sum(fact.completion_tokens or 0 for fact in usages) == server.billed.completion_tokens
    assert limits.spent().tokens == server.billed.prompt_tokens + server.billed.completion_tokens


def _is_answered(model: Model) -> bool:
    try:
        model.ask(QUESTION)
    except ModelError:
        return False
    return True


def test_questions_of_many_threads_do_not_mix(provider: Provider) -> None:
    with ModelServer(lambda asked: Reply(text=asked.text.upper(), delay_s=0.05)) as server:
        model = provider.open(server)

        def ask(number: int) -> str:
            return model.ask(Question(purpose="p", system="s", text=f"question {number}")).text

        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(ask, range(24)))
    assert answers == [f"QUESTION {number}" for number in range(24)]


def test_a_connection_is_kept_for_the_next_question_and_closed_with_the_model(
    provider: Provider,
) -> None:
    with ModelServer(lambda _: Reply(text="here")) as server:
        model = provider.open(server)
        for _ in range(5):
            model.ask(QUESTION)
        assert (server.connections, connections_to(server)) == (1, 1)
        model.close()
        assert connections_to(server) == 0
        assert model.ask(QUESTION).text == "here"
        assert server.connections == 2


def test_a_connection_that_broke_is_not_kept(provider: Provider) -> None:
    with ModelServer([Reply(), broken_off(), Reply(), Reply()]) as server:
        model = provider.open(server, clock=ManualClock())
        for _ in range(3):
            model.ask(QUESTION)
        assert server.connections == 2


def test_a_question_that_is_open_when_its_model_is_closed_is_canceled_and_perhaps_billed(
    provider: Provider, until: Callable[..., None]
) -> None:
    with ModelServer(lambda _: late(OPEN_S)) as server, ThreadPoolExecutor(1) as pool:
        model = provider.open(server)
        asking = pool.submit(model.ask, QUESTION)
        until(lambda: server.asked)
        model.close()
        error = asking.exception(timeout=OPEN_S / 2)
        assert isinstance(error, QuestionCanceled)
        assert [usage.prompt_tokens for usage in error.usages] == [None]
        assert connections_to(server) == 0


def connections_to(server: ModelServer) -> int:
    """Return how many connections this process has to a server."""
    port = urlsplit(server.url).port
    mine = psutil.Process().net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and each.raddr[1:] == (port,) for each in mine)


def test_a_question_in_another_thread_ends_when_the_pipeline_stops(
    provider: Provider, until: Callable[..., None]
) -> None:
    stop = threading.Event()
    with ModelServer(lambda _: late(OPEN_S)) as server, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(provider.open(server, stop=stop).ask, QUESTION)
        until(lambda: server.asked)
        stop.set()
        error = asking.exception(timeout=OPEN_S / 2)
    assert isinstance(error, QuestionCanceled)
    assert [usage.prompt_tokens for usage in error.usages] == [None]


CANCELED = """
import os, signal
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Canceled
from stages.adapters.models.opening import open_model
from stages.models.model import Question

def strike(number, frame):
    raise Canceled("stop")

signal.signal(signal.SIGTERM, strike)
class Telling(SystemClock):
    def wait(self, flag, seconds):
        print("waits", flush=True)
        return super().wait(flag, seconds)
model = open_model(os.environ, clock=Telling(), ids=SystemIds())
for _ in range(2):
    try:
        model.ask(Question(purpose="p", system="s", text="t"))
    except Canceled as error:
        print("canceled", len(error.usages), flush=True)
os._exit(0)
"""


def test_a_signal_ends_a_question_and_a_wait(provider: Provider, until: Callable[..., None]) -> None:
    with ModelServer([late(OPEN_S), rate_limited("250")]) as server:
        environ = provider.environ(server) | {"PATH": "/usr/bin:/bin"}
        child = subprocess.Popen(
            [sys.executable, "-c", CANCELED],
            env=environ,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        try:
            assert child.stdout is not None
            until(lambda: server.asked)
            child.send_signal(signal.SIGTERM)
            assert child.stdout.readline() == b"canceled 1\n"
            assert child.stdout.readline() == b"waits\n", "for its second try"
            threading.Event().wait(0.1)  # from its word into the wait itself
            child.send_signal(signal.SIGTERM)
            output, _ = child.communicate(timeout=OPEN_S / 2)
        finally:
            child.kill()
            child.wait()
    assert output == b"canceled 0\n"
    assert len(server.asked) == 2


def test_the_proxy_of_the_environment_is_used(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([Reply(text="through the proxy")]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        path = "/v1" if provider.name == "OPENAI" else ""
        environ = {
            f"{provider.name}_API_KEY": KEY,
            f"{provider.name}_BASE_URL": f"http://model.invalid{path}",
        }
        model = open_model(environ, clock=SystemClock(), ids=SeededIds())
        assert model is not None
        assert model.ask(QUESTION).text == "through the proxy"


def test_without_a_key_there_is_no_model() -> None:
    for environ in ({}, {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": " "}, {"OPENAI_MODEL": "m"}):
        assert open_model(environ, clock=SystemClock(), ids=SeededIds()) is None


def test_a_server_of_ones_own_needs_no_key() -> None:
    with ModelServer([Reply(text="local")]) as server:
        environ = {"OPENAI_BASE_URL": server.openai_url, "PODFLEET_PRIVATE_HOSTS": "127.0.0.1"}
        model = open_model(environ, clock=SystemClock(), ids=SeededIds())
        assert model is not None
        assert model.ask(QUESTION).text == "local"


def test_openai_goes_before_anthropic_and_models_have_defaults() -> None:
    both = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    assert opened(both).name == PROVIDERS[0].model
    assert opened({"ANTHROPIC_API_KEY": KEY}).name == PROVIDERS[1].model
    assert opened({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "claude-x"}).name == "claude-x"


def opened(environ: dict[str, str]) -> Model:
    model = open_model(environ, clock=SystemClock(), ids=SeededIds())
    assert model is not None
    return model


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"OPENAI_BASE_URL": "localhost:8000"}, "OPENAI_BASE_URL"),
        ({"OPENAI_BASE_URL": "http://x:port/v1"}, "OPENAI_BASE_URL"),
        ({"ANTHROPIC_API_KEY": "a", "ANTHROPIC_BASE_URL": "ftp://x"}, "ANTHROPIC_BASE_URL"),
        ({"OPENAI_API_KEY": "sk-geheim-\u00e9"}, "OPENAI_API_KEY"),
        (
            {"OPENAI_BASE_URL": "http://LocalHost:11434/v1"},
            "add localhost or 127.0.0.1 to PODFLEET_PRIVATE_HOSTS",
        ),
        (
            {"ANTHROPIC_BASE_URL": "http://[::ffff:169.254.169.254]/"},
            "add 169.254.169.254 to PODFLEET_PRIVATE",
        ),
        ({"OPENAI_BASE_URL": "http://10.0.0.7/", "PODFLEET_PRIVATE_HOSTS": "10.0.0.7:80"}, "without ports"),
    ],
)
def test_settings_that_cannot_work_are_told_before_anything_is_asked(
    environ: dict[str, str], named: str
) -> None:
    with pytest.raises(PipelineError, match=named) as caught:
        open_model(environ, clock=SystemClock(), ids=SeededIds())
    assert caught.value.code == "CONFIG"
    assert "geheim" not in caught.value.message


def test_a_key_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PipelineError, match=r"pip install 'podfleet\[models\]'") as caught:
        open_model({"OPENAI_API_KEY": KEY}, clock=SystemClock(), ids=SeededIds())
    assert caught.value.code == "CONFIG"


def test_nothing_heavy_is_imported_before_a_model_is_opened() -> None:
    script = (
        "import sys, stages.adapters.models.opening as _; print({'openai', 'anthropic'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


@pytest.mark.skipif(
    not {"OPENAI_BASE_URL", "OPENAI_API_KEY"} <= REAL_ENDPOINT.keys(),
    reason="OPENAI_BASE_URL and OPENAI_API_KEY name no real endpoint",
)
def test_a_real_endpoint_answers_counts_and_refuses() -> None:
    model = opened(REAL_ENDPOINT)
    answer = model.ask(Question(purpose="test", system="Be brief.", text="Say hello.", tokens_max=2_000))
    assert answer.text
    assert (answer.usage.prompt_tokens or 0) > 0
    assert (answer.usage.completion_tokens or 0) > 0
    short = model.ask(Question(purpose="test", system="", text="Count to a thousand.", tokens_max=16))
    assert short.is_cut_off
    wrong = opened(REAL_ENDPOINT | {"OPENAI_MODEL": "no-such-model-of-anybody"})
    assert failure(wrong).trouble in ("refused", "unauthorised")
