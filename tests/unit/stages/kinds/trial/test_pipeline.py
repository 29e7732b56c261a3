"""Trials against the double of an engine: real processes, real requests, and every way to fail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from events.catalog import ResultRecorded, RunLog, RunSummarized, StageMetric
from events.kinds import read_spec
from events.kinds.results import Value
from events.models.engine import Engine
from events.models.engines import ENGINES
from events.runtime.errors import PipelineError
from stages.kinds.trial.pipeline import run
from stages.kinds.trial.pressure import Pressure
from stages.kinds.trial.tally import Tally
from stages.testing import RecordingReporter, make_context, make_tools
from testing.engine_double import load_generator
from testing.engine_double.row import DOUBLE, misbehaving

BRIEF = {
    "model": "weights", "engine": "double", "scenarios": "D(20,4)", "concurrency": [2], "requests": 4,
    "warmup": 0, "noise_max": 1.0,
}  # fmt: skip


class Trial:
    """One attempt at a trial of the double, and what it said."""

    def __init__(
        self, folder: Path, *, path: str = "", variables: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        (folder / "models").mkdir()
        (folder / "models" / "weights.gguf").write_bytes(bytes(2_000))
        (folder / "run").mkdir()
        self.reporter = RecordingReporter()
        tools = make_tools(
            pod_usd_per_hour=2.0,
            variables={"MODEL_PATH": str(folder / "models"), "PATH": path, **(variables or {})},
        )
        spec = read_spec("trial", {**BRIEF, **more})
        self.context = make_context(spec, folder / "run", reporter=self.reporter, tools=tools)

    def run(self) -> str:
        return run(self.context)

    def fails(self) -> PipelineError:
        with pytest.raises(PipelineError) as failed:
            self.run()
        return failed.value

    @property
    def rows(self) -> list[ResultRecorded]:
        return self.reporter.of(ResultRecorded)

    @property
    def summary(self) -> Mapping[str, Value]:
        found: dict[str, Value] = {}
        for each in self.reporter.of(RunSummarized):
            found |= each.values
        return found

    @property
    def log(self) -> str:
        (kept,) = self.reporter.files
        assert kept.name == "engine/log.txt"
        return kept.path.read_text()

    @property
    def said(self) -> str:
        return "\n".join(each.message for each in self.reporter.of(RunLog))


@pytest.fixture(autouse=True)
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    serves(monkeypatch, DOUBLE)


def serves(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setitem(ENGINES, "double", engine)  # type: ignore[arg-type]  # a mapping that is a dict


def test_a_trial_serves_measures_and_leaves_nothing(tmp_path: Path) -> None:
    trial = Trial(
        tmp_path, concurrency=[1, 2], repeats=2, spread_max=10.0, parameters={"slots": 2},
        metrics=["tokens_out_per_s", "e2e_p50_s"],
    )  # fmt: skip

    line = trial.run()

    assert line.startswith("weights by double: ")
    assert [each.key for each in trial.rows] == [
        f"D(20,4)/c{load}/{each}" for each in (1, 2) for load in (1, 2)
    ]
    assert all(each.values["requests"] == 4 and each.values["tokens_out"] == 16 for each in trial.rows)
    summary = trial.summary
    assert summary["outcome"] == "success"
    assert (summary["requests"], summary["errors"], summary["error_rate"]) == (16, 0, 0.0)
    assert isinstance(summary["tokens_out_per_s"], float)
    assert isinstance(summary["seconds"], float)
    assert summary["cost_usd"] == pytest.approx(2.0 * summary["seconds"] / 3600)
    told = trial.reporter.of(StageMetric)
    assert [(each.name, each.step) for each in told] == [
        (name, step) for step in (1, 2, 3) for name in ("tokens_out_per_s", "e2e_p50_s")
    ]
    assert told[0].value == trial.rows[0].values["tokens_out_per_s"] != told[2].value, "of all until then"
    assert "--slots=2 --batch=256" in str(summary["command"])
    assert "double: {'slots': 2" in trial.log
    assert "double: double: {'slots': 2" in trial.said


def test_a_configuration_without_room_is_told_as_that(tmp_path: Path) -> None:
    trial = Trial(tmp_path, parameters={"slots": 64, "batch": 4_096})

    failed = trial.fails()

    assert (failed.code, failed.retryable) == ("ENGINE_OUT_OF_MEMORY", False)
    assert "Memory ran out" in failed.message
    assert trial.summary["outcome"] == "oom"
    assert "CUDA out of memory" in trial.log


def test_an_engine_with_more_memory_than_the_trial_allows_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serves(monkeypatch, misbehaving("--holds-mib=250", "--ready-after=60"))
    trial = Trial(tmp_path, memory_gib=0.125, cores=1)

    failed = trial.fails()

    assert (failed.code, failed.retryable) == ("ENGINE_OUT_OF_MEMORY", False)
    assert "and memory_gib allows 0.12 GiB" in failed.message
    assert trial.summary["outcome"] == "oom"


def test_an_engine_has_the_secrets_that_its_trial_names(tmp_path: Path) -> None:
    given = {"HF_TOKEN_LAB": "hf_abcdefghijklmnop", "HF_HOME": "home"}
    trial = Trial(tmp_path, variables=given, token_secret="HF_TOKEN_LAB")

    trial.run()

    assert "has no proxy, HF_TOKEN=***" in trial.said
    assert "look at the variables of the engine: HF_HOME is no absolute path" in trial.said
    (tmp_path / "other").mkdir()
    failed = Trial(tmp_path / "other", variables=given, proxy_secret="PROXY_LAB").fails()
    assert (failed.code, failed.retryable) == ("CONFIG", True)


def test_an_engine_that_is_never_ready_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serves(monkeypatch, misbehaving("--never-ready"))
    trial = Trial(tmp_path, ready_s=0.5)

    failed = trial.fails()

    assert (failed.code, failed.retryable, trial.summary["outcome"]) == ("TRIAL_TIMEOUT", False, "timeout")


def test_an_engine_that_dies_under_load_fails_the_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serves(monkeypatch, misbehaving("--dies-at=7"))
    trial = Trial(tmp_path, requests=50)

    failed = trial.fails()

    assert (failed.code, trial.summary["outcome"]) == ("BENCHMARK_FAILED", "benchmark_failed")
    assert "double ended" in failed.message


def test_what_is_disturbed_is_measured_again_and_then_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pressure, "is_above", lambda _, share: share == 0.125)
    monkeypatch.setattr(Tally, "wide", property(lambda self: self.points[:1]))
    trial = Trial(tmp_path, noise_max=0.125, again=1, concurrency=[1, 2], requests=1)

    line = trial.run()

    assert [each.values["try"] for each in trial.rows] == [1, 2, 1, 2, 3, 4]
    assert {each.status for each in trial.rows} == {"disturbed"}
    assert [each.step for each in trial.reporter.of(StageMetric)] == [1], (
        "a try is no step, and the end neither"
    )
    assert trial.summary["outcome"] == "noisy"
    assert "noisy" in line


def test_requests_that_all_fail_are_no_measurement(tmp_path: Path) -> None:
    trial = Trial(tmp_path, scenarios="E(20)")

    failed = trial.fails()

    assert failed.code == "BENCHMARK_FAILED"
    assert "no request was answered: 4 x" in failed.message


def test_genai_bench_of_the_pod_measures_where_it_is_asked_to(tmp_path: Path) -> None:
    told = "tell(NAME, [ANSWERED | {'ttft': 0.002, 'e2e_latency': 0.005}] * 3 + [REFUSED], 0.006)"
    load_generator.write(tmp_path / "bin", told)
    trial = Trial(tmp_path, path=f"{tmp_path}/bin:/usr/bin", client="genai-bench", repeats=2, seed=3)

    trial.run()

    assert [each.values["tokens_from"] for each in trial.rows] == ["genai-bench"] * 2
    assert {each.values["says"] for each in trial.rows} == {"1 x 429: slow down, hf_of-a-test-abcdef"}
    assert "late_p99_s" not in trial.rows[0].values
    summary = trial.summary
    assert (summary["requests"], summary["errors"], summary["tokens_out"]) == (8, 2, 24)
    assert (summary["tokens_out_per_s"], summary["itl_p50_s"]) == (pytest.approx(2_000), None)
    assert [each.name for each in trial.reporter.files] == ["genai-bench/log.txt", "engine/log.txt"]
    assert trial.reporter.files[0].path.read_text().count("D(20,4), 2 at once") == 2
    assert "genai-bench: token None" in trial.said


def test_a_pod_without_genai_bench_starts_no_engine(tmp_path: Path) -> None:
    trial = Trial(tmp_path, client="genai-bench")

    failed = trial.fails()

    assert (failed.code, failed.retryable) == ("NOT_AVAILABLE", True)
    assert trial.reporter.files == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"client": "genai-bench", "rates": [1]}, "genai-bench has no rates"),
        ({"client": "genai-bench", "scenarios": "E(9)"}, "one embedding at a time"),
        ({"client": "genai-bench", "tokenizer": "/etc/a"}, "tokenizer"),
        ({"token_secret": "OPENAI_API_KEY"}, "token_secret"),
        ({"proxy_secret": "HF_TOKEN_A"}, "proxy_secret"),
        ({"memory_gib": 0.06}, "memory_gib"),
        ({"metrics": ["start_s"]}, "metrics: 'start_s' is not said after each measurement"),
        ({"parameters": {"slots": 65}}, "slots"),
        ({"parameters": {"cache": "q8", "flash": False}}, "cache is quantised, which needs flash"),
        ({"parameters": {"lots": 1}}, "there is no parameter 'lots'"),
        ({"engine": "command", "command": "serve"}, "has no {port}"),
    ],
)
def test_what_cannot_start_is_refused_before_it_is_queued(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(Exception, match="spec: ") as refused:
        Trial(tmp_path, **wrong)

    assert words in str(refused.value)


def test_a_command_of_the_run_needs_the_consent_of_its_pod(tmp_path: Path) -> None:
    trial = Trial(tmp_path, engine="command", command="sh -c true {port}")

    failed = trial.fails()

    assert (failed.code, failed.retryable) == ("CONFIG", True)
    assert "PODFLEET_ENGINES=command would allow that" in failed.message
    assert trial.reporter.files == []
