"""The client of load: one suite against a scripted engine and a real one, and every way to answer wrongly."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.models.engines import ENGINES
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Canceled
from events.text.traffic import Embedding, Fixed, Uniform
from stages.engines.chat.asking import Answer, Progress, Question, Server
from stages.engines.load import measuring
from stages.engines.load.client import opened_session
from stages.engines.load.measurement import Answered, Measurement
from stages.engines.load.measuring import measure
from stages.engines.load.plan import Limits, Load, Target
from stages.engines.processes import free_port
from stages.engines.serving import serve
from stages.engines.weights import located

CLOCK = SystemClock()
ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
LATENCIES = ("ttft", "tpot", "itl", "e2e", "late")
MARKS = ("mean", "p50", "p90", "p95", "p99", "max")
BRIEF = Load(scenario=Fixed(40, 4), concurrency=2, requests=3, limit_s=LIMIT_S, request_s=LIMIT_S)


@dataclass(frozen=True)
class Scripted:
    """A scripted engine in a process of its own."""

    url: str

    def target(self, script: str) -> Target:
        return Target(base_url=f"{self.url}/v1", model=script, key="sk-of-a-test", takes_ignore_eos=True)

    def measure(self, script: str, load: Load = BRIEF, **more: Any) -> Measurement:
        return measured(self.target(script), load, **more)

    def log(self) -> list[dict[str, Any]]:
        """Return what it was asked since the last time."""
        told: list[dict[str, Any]] = httpx.get(f"{self.url}/log", trust_env=False, timeout=LIMIT_S).json()
        return told


def measured(target: Target, load: Load, **more: Any) -> Measurement:
    return measure(target, load, clock=CLOCK, canceled=lambda: False, **more)


@pytest.fixture(scope="module")
def scripted() -> Iterator[Scripted]:
    command = [sys.executable, "-m", "testing.bench.programs.scripted_engine"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield Scripted(f"http://127.0.0.1:{int(process.stdout.readline())}")
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module", params=["scripted", "xllamacpp"])
def target(
    request: pytest.FixtureRequest, scripted: Scripted, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """What the whole suite is run against."""
    if request.param == "scripted":
        yield scripted.target("paced=0.01")
        return
    engine = ENGINES[request.param]
    pytest.importorskip(engine.needs, reason=f"{engine.name} is not installed")
    with serve(
        engine, located("smollm2"), {"n_parallel": 2}, name="smollm2", clock=CLOCK, ids=SystemIds(),
        folder=tmp_path_factory.mktemp("engine"),
    ) as served:  # fmt: skip
        yield Target(base_url=served.url, model=served.name, takes_ignore_eos=True)


def test_a_closed_loop_is_measured_in_tokens_that_the_server_counted(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    heard: list[Answered] = []
    limits = Limits(ttft_s=LIMIT_S, tpot_s=LIMIT_S, e2e_s=LIMIT_S)
    load = Load(
        scenario=Fixed(40, 3), concurrency=2, requests=3, warmup=1, limit_s=LIMIT_S, limits=limits, seed=3
    )
    found = measured(target, load, heard=heard.append)
    values = found.values()
    assert (found.requests, found.failures, found.warmup_errors, len(heard)) == (3, {}, 0, 3)
    assert (found.tokens_from, found.tokens_out, found.scale.is_measured) == ("usage", 9, True)
    assert abs(values["tokens_in_off"]) < 0.15
    assert {f"{each}_{mark}_s" for each in LATENCIES for mark in MARKS} <= values.keys()
    for each in LATENCIES:
        marks = [values[f"{each}_{mark}_s"] for mark in MARKS[1:]]
        assert marks == sorted(marks)
    assert 0 < values["ttft_p50_s"] < values["e2e_p50_s"] <= values["e2e_max_s"] <= values["seconds"]
    assert values["tokens_out_per_s"] == pytest.approx(9 / values["seconds"])
    assert values["goodput_per_s"] == values["requests_per_s"] == pytest.approx(3 / values["seconds"])
    for answered in heard:
        assert answered.tokens_out == 3
        assert (
            answered.due_s < answered.sent_s == answered.timed_s < (answered.first_s or 0) < answered.ended_s
        )


def test_an_open_loop_asks_when_it_is_due(target: Target) -> None:
    heard: list[Answered] = []
    load = Load(
        scenario=Uniform(20, 40, 2, 4), rate_per_s=20.0, arrivals="constant", requests=3, limit_s=LIMIT_S
    )
    found = measured(target, load, heard=heard.append)
    assert (found.requests, found.failures) == (3, {})
    due_s = sorted(each.due_s for each in heard)
    assert [each - due_s[0] for each in due_s] == pytest.approx([0.0, 0.05, 0.1])
    assert all(each.sent_s > each.due_s == each.timed_s for each in heard)
    assert 2 * 3 <= found.tokens_out <= 4 * 3


def test_a_measurement_that_is_canceled_ends(scripted: Scripted) -> None:
    flag = threading.Event()
    with pytest.raises(Canceled):
        measure(
            scripted.target("paced=0.01"), replace(BRIEF, requests=100_000), clock=CLOCK,
            canceled=flag.is_set, heard=lambda _: flag.set(),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "failure", "said"),
    [
        ("status=429", "429", "no: 429"),
        ("status=401", "401", "Bearer ***"),
        ("status=500", "500", "no: 500"),
        ("status=307", "307", "no: 307"),
        ("cut=0", "cut_off", ""),
        ("cut=2", "cut_off", ""),
        ("unfinished", "cut_off", ""),
        ("empty", "empty", ""),
        ("failing", "stream_error", "the cache is full"),
        ("garbage", "malformed", "JSON"),
        ("page", "malformed", ""),
        ("negative", "malformed", "prompt_tokens"),
        ("nonsense", "malformed", ""),
        ("headed", "malformed", ""),
        ("packed", "malformed", ""),
        ("endless", "too_large", ""),
        ("giant", "too_large", ""),
    ],
)
def test_a_wrong_answer_is_counted_by_its_name_and_asked_for_once(
    scripted: Scripted, script: str, failure: str, said: str
) -> None:
    scripted.log()
    heard: list[Answered] = []
    found = scripted.measure(script, heard=heard.append)
    assert (found.requests, found.errors, dict(found.failures)) == (3, 3, {failure: 3})
    assert said in found.said[failure]
    assert "sk-of-a-test" not in found.said[failure]
    assert len({each["prompt"] for each in scripted.log()}) == 3 + 1, "one, too, for the scale"
    values = found.values()
    assert (values["error_rate"], values["requests_per_s"], values["tokens_out"]) == (1.0, 0.0, 0)
    assert "ttft_p50_s" not in values


@pytest.mark.parametrize("script", ["silent", "slow=0.05", "late=3600"])
def test_what_does_not_answer_in_time_is_timed_out(scripted: Scripted, script: str) -> None:
    found = scripted.measure(script, replace(BRIEF, request_s=0.1, requests=4))
    assert found.failures == {"timeout": 4}


def test_a_measurement_ends_at_its_limit(scripted: Scripted) -> None:
    found = scripted.measure("silent", replace(BRIEF, limit_s=0.7, concurrency=1))
    assert (found.requests, found.failures) == (1, {"unfinished": 1}), "the others were not begun"
    found = scripted.measure("silent", replace(BRIEF, limit_s=0.7, concurrency=None, rate_per_s=100.0))
    assert found.failures == {"unfinished": found.requests}
    assert found.values()["seconds"] >= 0.6


def test_where_nobody_listens_requests_are_refused() -> None:
    nobody = Target(base_url=f"http://127.0.0.1:{free_port()}/v1", model="none")
    assert measured(nobody, BRIEF).failures == {"refused": 3}


@pytest.mark.parametrize(("script", "tokens"), [("uncounted", 4), ("lying", 1), ("unmarked", 1)])
def test_tokens_that_a_server_does_not_count_are_counted_from_chunks(
    scripted: Scripted, script: str, tokens: int
) -> None:
    found = scripted.measure(script)
    assert (found.failures, found.tokens_from, found.tokens_out) == ({}, "counted from chunks", 3 * tokens)
    assert (found.tokens_in, found.scale.is_measured) == (3 * 40, False)


def test_a_server_that_counts_more_than_it_was_sent_is_not_believed(scripted: Scripted) -> None:
    found = scripted.measure("boasting")
    assert found.tokens_from == "counted from chunks: usage is more than was sent"
    assert (found.tokens_in, found.tokens_out, found.scale.is_measured) == (3 * 40, 3, False)
    assert ask(f"{scripted.url}/v1", "boasting")[0].prompt_tokens is None
    assert ask(f"{scripted.url}/v1", "plain")[0].prompt_tokens is not None


def test_an_answer_ends_with_its_mark_even_where_the_connection_is_held(scripted: Scripted) -> None:
    found = scripted.measure("held")
    assert (found.failures, found.tokens_from, found.tokens_out) == ({}, "usage", 3)
    assert found.values()["e2e_max_s"] < LIMIT_S / 2


def test_what_is_asked_follows_from_the_seed_and_no_prefix_is_shared(scripted: Scripted) -> None:
    def prompts(**more: Any) -> list[str]:
        scripted.log()
        scripted.measure("plain", replace(BRIEF, requests=12, concurrency=1, **more))
        return [each["prompt"] for each in scripted.log()][2:]

    one = prompts(seed=1)
    assert one == prompts(seed=1)
    assert not set(one) & set(prompts(seed=2))
    assert len({each.split()[0] for each in one}) > 9, "their first words differ"
    shared = [each.split() for each in prompts(seed=1, shared_prefix_tokens=15)]
    assert len({tuple(each[:10]) for each in shared}) == 1, "15 tokens are 10 words here"
    assert len({each[10] for each in shared}) > 6


def test_a_request_says_what_it_wants_and_no_more(scripted: Scripted) -> None:
    scripted.log()
    scripted.measure("plain", replace(BRIEF, requests=1))
    asked = scripted.log()[-1]
    assert asked["path"] == "/v1/chat/completions"
    assert asked["prompt"].count(" ") + 1 == (40 - 7) / 1.5
    assert asked["body"] | {"messages": 0} == {
        "model": "plain", "max_tokens": 4, "temperature": 0.0, "stream": True, "messages": 0,
        "stream_options": {"include_usage": True}, "ignore_eos": True,
    }  # fmt: skip
    assert "Bearer sk-of-a-test" in asked["headers"]
    assert "gzip" not in asked["headers"]
    measured(replace(scripted.target("plain"), takes_ignore_eos=False, key=""), replace(BRIEF, requests=1))
    asked = scripted.log()[-1]
    assert "ignore_eos" not in asked["body"]
    assert "authorization" not in asked["headers"].lower()


def test_embeddings_are_asked_for_as_such(scripted: Scripted) -> None:
    load = replace(BRIEF, scenario=Embedding(40))
    scripted.log()
    found = scripted.measure("plain", load)
    assert {each["path"] for each in scripted.log()} == {"/v1/embeddings"}
    assert (found.failures, found.tokens_from, found.tokens_in, found.tokens_out) == ({}, "usage", 120, 0)
    assert "ttft_p50_s" not in found.values()
    assert found.values()["e2e_p50_s"] > 0
    for script, failure in (("empty", "empty"), ("giant", "too_large"), ("status=404", "404")):
        assert scripted.measure(script, load).failures == {failure: 3}
    assert scripted.measure("uncounted", load).tokens_from == "counted from chunks"


def test_what_waits_for_a_slow_server_is_late_from_when_it_was_due(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten requests in a tenth of a second, each of which takes a tenth: the last waits for nine of them."""
    load = Load(scenario=Fixed(20, 1), rate_per_s=100.0, arrivals="constant", requests=10, limit_s=LIMIT_S)
    found = scripted.measure("slot=0.1", load).values()
    assert found["ttft_max_s"] > 0.85
    assert found["ttft_p50_s"] > 0.35
    closed = scripted.measure("slot=0.1", replace(load, rate_per_s=None, concurrency=1, requests=3))
    assert closed.values()["ttft_p50_s"] > 0.09
    monkeypatch.setattr(measuring, "IN_FLIGHT_MAX", 1)
    bounded = scripted.measure("slot=0.1", load).values()
    assert bounded["ttft_max_s"] > 0.85, "also what the client itself kept back"
    assert bounded["late_max_s"] > 0.75


def test_as_many_are_asked_at_once_as_the_load_says(scripted: Scripted) -> None:
    scripted.log()
    load = replace(BRIEF, concurrency=7, requests=28, warmup=3)
    assert scripted.measure("late=0.05", load).requests == 28
    log = scripted.log()
    assert len(log) == 2 + 3 + 28, "the scale and the warm-up are no figures"
    assert max(each["at_once"] for each in log) == 7


def test_the_collector_leaves_alone_what_was_there(scripted: Scripted) -> None:
    """To look through it takes as long as several tokens, and nobody is heard meanwhile."""
    before, during = gc.get_freeze_count(), set[int]()
    scripted.measure("plain", heard=lambda _: during.add(gc.get_freeze_count()))
    assert min(during) > before


def test_a_person_measures_a_server_by_hand(scripted: Scripted) -> None:
    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "stages.engines.load", f"{scripted.url}/v1", *words, "--requests=3"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S)

    done = ran("plain", "D(20,3), E(8)", "--concurrency=2", "--json")
    text, vector = (json.loads(line) for line in done.stdout.splitlines())
    assert (text["load"], text["tokens_out"], text["failures"]) == ("D(20,3), 2 at once", 9, {})
    assert (vector["load"], vector["requests"]) == ("E(8), 2 at once", 3)
    assert "3 × 429" in ran("status=429", "D(20,3)", "--rate=500").stdout


def ask(url: str, model: str, limit_s: float = LIMIT_S, **more: Any) -> tuple[Answer, list[Progress]]:
    """Ask one question, and return the answer with what was heard of it."""
    heard: list[Progress] = []
    fields: dict[str, Any] = {"prompt": "Say hello.", "tokens_max": 6, "temperature": 0.0, "seed": 1, **more}

    async def asked() -> Answer:
        async with opened_session(CLOCK) as session:
            server = Server(base_url=url, session=session, clock=CLOCK)
            return await server.ask(Question(model=model, context=512, **fields), limit_s, heard.append)

    return asyncio.run(asked()), heard


def test_an_answer_is_what_the_engine_said_and_is_heard_as_it_comes(target: Target) -> None:
    answer, heard = ask(target.base_url, target.model)
    assert (answer.failure, answer.reason, answer.tokens, answer.tokens_from) == ("", "length", 6, "usage")
    assert "".join(each.text for each in heard) == answer.text.decode()
    assert len(answer.gaps_s) > 1
    assert 0 < (answer.ttft_s or 0) <= answer.total_s - sum(answer.gaps_s) + 1e-6
    assert heard[-1].pieces == len(answer.gaps_s) + 1
    if target.model != "smollm2":
        return
    body = {"model": target.model, "max_tokens": 6, "temperature": 0.0, "seed": 1}
    messages = [{"role": "user", "content": "Say hello."}]
    whole = httpx.post(
        f"{target.base_url}/chat/completions", json={**body, "messages": messages}, trust_env=False,
        timeout=LIMIT_S,
    ).json()  # fmt: skip
    assert answer.text.decode() == whole["choices"][0]["message"]["content"]
    assert 0 < (answer.own_ttft_s or 0) <= (answer.ttft_s or 0)
    assert answer.own_tokens_per_s


@pytest.mark.parametrize(
    ("script", "failure", "text"),
    [
        ("status=404", "404", ""),
        ("cut=7", "cut_off", " word" * 7),
        ("unfinished", "cut_off", " word"),
        ("failing", "stream_error", " word"),
        ("garbage", "malformed", ""),
        ("negative", "malformed", " word"),
        ("giant", "too_large", ""),
        ("empty", "", ""),
        ("unmarked", "", " word"),
        ("behind", "", " word"),
        ("lying", "", " word"),
    ],
)
def test_an_answer_that_breaks_off_is_named_and_has_what_came_of_it(
    scripted: Scripted, script: str, failure: str, text: str
) -> None:
    answer, heard = ask(f"{scripted.url}/v1", script)
    assert (answer.failure, answer.text.decode()) == (failure, text)
    assert "".join(each.text for each in heard) == text
    assert answer.is_overrun is (script == "behind")
    assert answer.tokens_from == ("usage" if script == "empty" else "chunks")


def test_an_answer_without_end_ends_at_its_limit(scripted: Scripted) -> None:
    answer, heard = ask(f"{scripted.url}/v1", "paced=0.05", limit_s=0.4, tokens_max=1_000)
    assert answer.failure == "timeout"
    assert answer.text.decode() == "".join(each.text for each in heard) == " word" * len(answer.text.split())
    assert ask(f"{scripted.url}/v1", "slow=0.05", limit_s=0.2)[0].failure == "timeout"


def test_characters_that_pieces_divide_are_one_again(scripted: Scripted) -> None:
    answer, heard = ask(f"{scripted.url}/v1", "odd")
    assert answer.text.decode() == "".join(each.text for each in heard) == "\U0001f600\ufffd!\U0001f600"
    assert (answer.failure, answer.replaced, answer.chars) == ("", 1, 4)


def test_what_an_engine_times_itself_is_told_beside_unless_it_cannot_be(scripted: Scripted) -> None:
    own = ask(f"{scripted.url}/v1", "timed=12.5")[0]
    assert (own.own_ttft_s, own.own_tokens_per_s, own.cached_tokens) == (0.0125, 50.0, 3)
    lie = ask(f"{scripted.url}/v1", "timed=-12.5")[0]
    assert (lie.failure, lie.own_ttft_s, lie.tokens) == ("", None, 2)
