"""Loads that genai-bench measures, of which a double is on the PATH.

It writes files in the form that genai-bench 0.0.5 wrote when a trial was measured by it, or does what it
might do wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from events.runtime.clock import SystemClock
from events.runtime.errors import Canceled, PipelineError
from events.text.traffic import Embedding, Fixed, Uniform
from stages.engines.load import genai_bench
from stages.engines.load.outside import OUTPUT_BYTES_MAX, Outside, found_outside
from stages.engines.load.plan import Limits, Load, Target
from stages.engines.processes import living
from testing.engine_double.load_generator import ANSWERED, REFUSED, TOKEN, write

CLOCK = SystemClock()
TARGET = Target(base_url="http://127.0.0.1:9/v1", model="--m", takes_ignore_eos=True)
LOAD = Load(scenario=Fixed(20, 4), concurrency=2, requests=3, limit_s=1.0)
QUICK = "ANSWERED |= {'ttft': 0.0002, 'e2e_latency': 0.0005}\n"


def told(*requests: dict[str, Any], seconds: float = 2.0, **more: Any) -> bytes:
    whole = {"aggregated_metrics": {"run_duration": seconds}, "_time_unit": "s"}
    return json.dumps({**whole, "individual_request_metrics": requests, **more}).encode()


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Outside]:
    lines: list[str] = []

    def make(does: str, **variables: str) -> Outside:
        write(tmp_path / "bin", does)
        given = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HF_TOKEN": TOKEN, **variables}
        found = found_outside(
            given,
            tokenizer="",
            is_offline=True,
            folder=tmp_path / "genai-bench",
            clock=CLOCK,
            say=lines.append,
        )
        found.start_s = 60.0
        return found

    return make


def never() -> bool:
    return False


def seen(outside: Outside) -> tuple[list[str], dict[str, str]]:
    words, environment = json.loads((outside.folder / "seen").read_text())
    return words, environment


def test_figures_are_made_of_what_became_of_each_request() -> None:
    load = Load(scenario=Fixed(20, 4), concurrency=2, limits=Limits(ttft_s=0.3))
    slow = {**ANSWERED, "ttft": 0.5, "e2e_latency": 2.0}
    found = genai_bench.figures(told(ANSWERED, slow, REFUSED), load, took_s=9.0)
    values = found.values()

    assert (found.requests, dict(found.failures), found.tokens_from) == (3, {"429": 1}, "genai-bench")
    assert (values["tokens_out_per_s"], values["requests_per_s"], values["goodput_per_s"]) == (4.0, 1.0, 0.5)
    assert values["ttft_max_s"] == 0.5
    assert values["tpot_p50_s"] == pytest.approx(0.25, rel=0.01)
    assert values["tokens_in_off"] == pytest.approx(-0.1)
    assert not [each for each in values if each.startswith(("itl", "late", "client"))]


def test_embeddings_have_no_first_token() -> None:
    row = {**ANSWERED, "ttft": 1.0, "tpot": 0, "num_output_tokens": 0}
    values = genai_bench.figures(told(row), Load(scenario=Embedding(18), concurrency=1), took_s=9.0).values()
    assert (values["e2e_max_s"], values["tokens_out"], values["tokens_in_off"]) == (1.0, 0, 0.0)
    assert "ttft_p50_s" not in values


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        told(),
        told(ANSWERED, seconds=10.0),
        told(ANSWERED, seconds=0.0),
        told({**ANSWERED, "ttft": 3.0}),
        told({**ANSWERED, "ttft": -1.0}),
        told({**ANSWERED, "num_output_tokens": 10**12}),
        told({**ANSWERED, "num_output_tokens": 0.5}),
        told(dict.fromkeys(ANSWERED)),
        told(ANSWERED).replace(b"0.25", b"NaN"),
        told(ANSWERED, _time_unit="ms"),
        told(ANSWERED, individual_request_metrics={}),
    ],
)
def test_a_report_that_cannot_be_is_none(report: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        genai_bench.figures(report, LOAD, took_s=9.0)


def test_it_is_told_what_to_ask_and_no_more_of_its_pod(
    made: Callable[..., Outside], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PODFLEET_SECRET", "of the worker")
    proxy = "http://me:pass-word-1@10.0.0.1:3128"
    outside = made(f"{QUICK}tell(NAME, [ANSWERED, REFUSED])", https_proxy=proxy, MODEL_PATH="/models", A="b")
    found = outside.measure(TARGET, LOAD, canceled=never)
    words, environment = seen(outside)

    assert (found.requests, found.said) == (2, {"429": "slow down, ***"})
    assert words[0] == "benchmark"
    assert {
        "--api-base=http://127.0.0.1:9", "--api-model-name=--m", "--traffic-scenario=D(20,4)",
        "--num-concurrency=2", "--max-requests-per-run=3", "--max-time-per-run=1", "--api-backend=vllm",
    } <= {*words}  # fmt: skip
    assert environment["HTTPS_PROXY"] == environment["https_proxy"] == proxy
    assert environment["NO_PROXY"] == environment["no_proxy"] == "localhost,127.0.0.1,.local"
    assert (environment["HF_TOKEN"], environment["HF_HUB_OFFLINE"]) == (TOKEN, "1")
    assert {*environment} <= {
        "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "PWD",
        "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "PATH", "LANG", "HOME", "TMPDIR", "COLUMNS", "ENABLE_UI",
        "LC_CTYPE",
    }  # fmt: skip
    assert "token ***" in outside.log.read_text()
    assert [each.name for each in outside.folder.iterdir() if each.name.isdigit()] == []


@pytest.mark.parametrize(
    ("target", "load", "words"),
    [
        (TARGET, Load(scenario=Fixed(2, 2), rate_per_s=1.0), "no open loop"),
        (Target(base_url="http://127.0.0.1:9/api", model="m"), LOAD, "asks below /v1 alone"),
    ],
)
def test_what_it_cannot_ask_is_refused(target: Target, load: Load, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        genai_bench.command("p", target, load, tokenizer="t", folder=Path("f"))


def test_other_loads_have_other_words() -> None:
    load = Load(scenario=Uniform(1, 9, 1, 3), concurrency=7, shared_prefix_tokens=5, limit_s=150.0)
    plain = Target(base_url="http://127.0.0.1:9/v1/", model="m", key="sk-1")
    words = genai_bench.command("p", plain, load, tokenizer="a/b", folder=Path("f"))
    assert {
        "--api-backend=openai", "--api-key=sk-1", "--traffic-scenario=U(9,3)", "--prefix-len=5",
        "--max-time-per-run=2", "--model-tokenizer=a/b", "--task=text-to-text",
    } <= {*words}  # fmt: skip
    asked = genai_bench.command(
        "p", plain, Load(scenario=Embedding(9), concurrency=1), tokenizer="t", folder=Path("f")
    )
    assert {"--task=text-to-embeddings", "--batch-size=1"} <= {*asked}


def test_requests_that_all_failed_are_counted_though_it_ends_with_an_error(
    made: Callable[..., Outside],
) -> None:
    outside = made("tell('debug_for_run_D20_4_2.json', [REFUSED] * 3, 0.0); sys.exit(1)")
    found = outside.measure(TARGET, LOAD, canceled=never)
    assert (found.requests, dict(found.failures)) == (3, {"429": 3})


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("print('no tokenizer'); sys.exit(3)", "there is no result .* ended .3.: .*no tokenizer"),
        ("tell(NAME, [ANSWERED], 500.0)", "cannot be believed: its run cannot have taken 500 s"),
        ("(folder / NAME).symlink_to('/etc/hostname')", "cannot be believed"),
        ("os.mkfifo(folder / NAME)", "cannot be believed"),
        ("os.truncate(open(folder / NAME, 'wb').fileno(), 200 << 30)", "no result|cannot be believed"),
        ("tell(NAME, []); tell('a_num_concurrency_1_time_1s.json', [])", "there is no result"),
        ("os.rename('engine.log', 'gone')", "taken away"),
    ],
)
def test_a_program_that_tells_nothing_fails_the_benchmark(
    made: Callable[..., Outside], does: str, words: str
) -> None:
    with pytest.raises(PipelineError, match=f"(?s){words}") as failed:
        made(does).measure(TARGET, LOAD, canceled=never)
    assert failed.value.code == "BENCHMARK_FAILED"


STAYS = "if not os.fork(): time.sleep(600)\ntime.sleep(600)"


def test_one_that_does_not_end_is_ended_with_all_that_it_started(made: Callable[..., Outside]) -> None:
    outside = made(f"print(os.getsid(0), flush=True)\n{STAYS}")
    outside.start_s = 1.0
    found = outside.measure(TARGET, LOAD, canceled=never)

    assert (found.requests, dict(found.failures)) == (3, {"unfinished": 3})
    assert "was ended after" in found.said["unfinished"]
    session = next(int(line) for line in outside.log.read_text().splitlines() if line.isdigit())
    assert living(session) == []


def test_a_measurement_that_is_canceled_ends_it(made: Callable[..., Outside]) -> None:
    with pytest.raises(Canceled):
        made("time.sleep(600)").measure(TARGET, LOAD, canceled=lambda: True)


def test_what_it_writes_is_kept_within_bounds(made: Callable[..., Outside]) -> None:
    outside = made(f"{QUICK}print('x' * {4 * OUTPUT_BYTES_MAX})\ntell(NAME, [ANSWERED])")
    outside.measure(TARGET, LOAD, canceled=never)
    assert outside.log.stat().st_size < OUTPUT_BYTES_MAX + 200


def test_a_pod_without_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="pip install genai-bench") as failed:
        found_outside(
            {"PATH": os.fspath(tmp_path)}, tokenizer="", is_offline=False, folder=tmp_path / "g",
            clock=CLOCK, say=print,
        )  # fmt: skip
    assert (failed.value.code, failed.value.retryable) == ("NOT_AVAILABLE", True)
