"""Prompts against doubles of engines and servers: real processes, real requests, and every way to fail."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from events.catalog import ResultRecorded, RunSummarized, StageProgress, StageStarted
from events.kinds import read_spec
from events.kinds.results import Value
from events.models.engine import Engine
from events.models.engines import ENGINES
from events.runtime.errors import Canceled, PipelineError, Rejected
from stages.engines.processes import free_port
from stages.kinds.prompt.pipeline import run
from stages.testing import RecordingLiveView, RecordingReporter, make_context, make_tools
from testing.bench.servers import scripted_engine
from testing.engine_double.row import DOUBLE, misbehaving

BRIEF = {"model": "weights", "engine": "double", "prompt": "Say some words.", "max_tokens": 3}
ROOT = Path(__file__).parents[5]


class Canceling(RecordingLiveView):
    """A live view whose run is canceled as soon as something is shown, as its signal would do."""

    is_canceled = False

    def show(self, text: str, lap: int, values: Mapping[str, float]) -> None:
        RecordingLiveView.show(self, text, lap, values)
        if self.is_canceled:
            raise Canceled


class Prompt:
    """One attempt at a prompt, and what it said."""

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None, **more: Any) -> None:
        (folder / "models").mkdir()
        (folder / "models" / "weights.gguf").write_bytes(bytes(2_000))
        self.workspace = folder / "run"
        self.workspace.mkdir()
        self.reporter, self.live = RecordingReporter(), Canceling()
        tools = make_tools(variables=variables or {"MODEL_PATH": str(folder / "models")})
        spec = read_spec("prompt", {**BRIEF, **more})
        self.context = make_context(spec, self.workspace, reporter=self.reporter, tools=tools, live=self.live)

    def run(self) -> str:
        return run(self.context)

    def fails(self) -> PipelineError:
        with pytest.raises(PipelineError) as failed:
            self.run()
        return failed.value

    @property
    def rows(self) -> list[Mapping[str, Value]]:
        return [each.values for each in self.reporter.of(ResultRecorded)]

    @property
    def summary(self) -> Mapping[str, Value]:
        found: dict[str, Value] = {}
        for each in self.reporter.of(RunSummarized):
            found |= each.values
        return found

    @property
    def files(self) -> Mapping[str, bytes]:
        return {each.name: each.path.read_bytes() for each in self.reporter.files}


@pytest.fixture(autouse=True)
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    serves(monkeypatch, DOUBLE)


def serves(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setitem(ENGINES, "double", engine)  # a mapping that is a dict


@pytest.fixture(scope="module")
def scripted() -> Iterator[str]:
    with scripted_engine() as url:
        yield url


def at(url: str) -> dict[str, str]:
    return {"PODFLEET_ENDPOINTS": f"local={url}"}


def test_a_prompt_is_answered_some_times_and_its_text_is_kept_as_it_was_shown(tmp_path: Path) -> None:
    prompt = Prompt(tmp_path, repeats=2)

    line = prompt.run()

    assert line.startswith("weights by double: ")
    assert [each.stage for each in prompt.reporter.of(StageStarted)] == ["serve", "load", "answer"]
    for lap, row in enumerate(prompt.rows, 1):
        assert prompt.files[f"text-{lap}.txt"].decode() == prompt.live.text(lap) == " word0 word1 word2"
        assert (row["lap"], row["tokens"], row["prompt_tokens"], row["ends"]) == (lap, 3, 3, "length")
        assert (row["tokens_from"], row["bytes"]) == ("usage", 18)
        assert row["engine_ttft_s"] is None
    assert prompt.live.pieces[-1].values.keys() == {"ttft_s", "tokens", "tokens_per_s"}
    assert {each.lap for each in prompt.live.pieces} == {1, 2}
    assert b"double: {'slots': 1" in prompt.files["engine/log.txt"], "room for one answer at a time"
    ttft_s = [float(row["ttft_s"] or 0) for row in prompt.rows]
    assert prompt.summary["ttft_s"] == pytest.approx(sum(ttft_s) / 2)
    assert (prompt.summary["laps"], prompt.summary["tokens"]) == (2, 3.0)


def test_an_engine_that_dies_in_an_answer_leaves_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serves(monkeypatch, misbehaving("--dies-at=3"))  # the first request warms it up
    prompt = Prompt(tmp_path, max_tokens=9, repeats=5)

    failed = prompt.fails()

    assert (failed.code, failed.retryable) == ("ENGINE_FAILED", False)
    assert "double ended (status 139)" in failed.message
    assert prompt.files["text-2.part.txt"].decode() == prompt.live.text(2) == " word0 word1"
    assert [row["lap"] for row in prompt.rows] == [1]
    assert b"Segmentation fault" in prompt.files["engine/log.txt"]


def test_a_run_that_is_canceled_in_an_answer_ends_and_leaves_no_engine(tmp_path: Path) -> None:
    prompt = Prompt(tmp_path, max_tokens=9_000)
    prompt.live.is_canceled = True
    with pytest.raises(Canceled):
        prompt.run()

    assert len(prompt.live.pieces) == 1
    assert prompt.files.keys() == {"engine/log.txt"}


@pytest.mark.parametrize(
    ("model", "limits", "code", "words"),
    [
        ("status=404", {}, "MODEL_MISSING", "the server has no model status=404: "),
        ("status=503", {}, "ENGINE_UNREACHABLE", "does not answer (503)"),
        ("failing", {}, "STREAM_BROKEN", "after 5 characters: stream_error: "),
        ("silent", {"ready_s": 0.2}, "ANSWER_TIMEOUT", "more than 0.2 s (ready_s)"),
        ("paced=0.05", {"answer_s": 0.5, "max_tokens": 999}, "ANSWER_TIMEOUT", "0.5 s (answer_s), and had"),
    ],
)
def test_a_server_that_fails_is_told_by_a_code(
    tmp_path: Path, scripted: str, model: str, limits: dict[str, Any], code: str, words: str
) -> None:
    prompt = Prompt(tmp_path, at(f"{scripted}/v1"), model=model, engine=None, endpoint="local", **limits)

    failed = prompt.fails()

    assert failed.code == code
    assert words in failed.message
    assert prompt.rows == []


def test_an_endpoint_is_the_operators_word_and_may_be_down(tmp_path: Path) -> None:
    for number, (variables, code, words) in enumerate(
        (
            (at(f"http://127.0.0.1:{free_port()}/v1"), "ENGINE_UNREACHABLE", "(refused)"),
            ({"PODFLEET_ENDPOINTS": "other=http://127.0.0.1:1/v1"}, "NOT_AVAILABLE", "it has other"),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        failed = Prompt(folder, variables, endpoint="local", engine=None).fails()
        assert (failed.code, failed.retryable) == (code, True)
        assert words in failed.message


@pytest.fixture
def ollama(tmp_path: Path) -> dict[str, str]:
    """The variables of a pod with the double of Ollama on its PATH."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ollama"
    (tmp_path / "library").mkdir()
    root, python = shlex.quote(str(ROOT)), shlex.quote(sys.executable)
    command = f"PYTHONPATH={root} exec {python} -m testing.engine_double.ollama"
    program.write_text(f'#!/bin/sh\n{command} "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{tmp_path / 'bin'}:{os.defpath}", "OLLAMA_MODELS": str(tmp_path / "library")}


def test_a_model_that_ollama_lacks_is_pulled_and_its_own_times_are_told(
    tmp_path: Path, ollama: dict[str, str]
) -> None:
    prompt = Prompt(tmp_path, ollama, engine="ollama", model="tiny/words:1b")

    prompt.run()

    assert (tmp_path / "library" / "tiny_words:1b").exists()
    said = [each.activity for each in prompt.reporter.of(StageProgress) if each.stage == "load"]
    assert said == ["pull: pulling manifest", "pull: pulling 6a0746a1", "pull: pulling 6a0746a1",
                    "warm up"]  # fmt: skip
    (row,) = prompt.rows
    assert prompt.files["text-1.txt"].decode() == "word1 word2 word3 "
    assert (row["engine_ttft_s"], row["engine_tokens_per_s"]) == pytest.approx((0.03, 200.0))
    assert (row["tokens"], row["prompt_tokens"], row["ends"]) == (3, 7, "length")
    assert isinstance(prompt.summary["pull_s"], float)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model": "unheard"}, "it cannot be pulled: pull model manifest: file does not exist"),
        ({"model": "tiny", "offline": True}, "the run is offline"),
        ({"model": "registry.example/a/b"}, "is not pulled"),
    ],
)
def test_a_model_that_cannot_be_had_is_missing(
    tmp_path: Path, ollama: dict[str, str], more: dict[str, Any], words: str
) -> None:
    failed = Prompt(tmp_path, ollama, **{"engine": "ollama", **more}).fails()

    assert (failed.code, failed.retryable) == ("MODEL_MISSING", False)
    assert words in failed.message


def test_weights_that_the_pod_lacks_are_missing(tmp_path: Path) -> None:
    failed = Prompt(tmp_path, model="others").fails()

    assert failed.code == "MODEL_MISSING"
    assert "this pod has no weights others" in failed.message


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"engine": "none"}, "there is no engine 'none'"),
        ({"engine": None}, "`engine` and `endpoint` are both empty"),
        ({"endpoint": "local"}, "`engine` and `endpoint` are both given"),
        ({"engine": None, "endpoint": "local", "parameters": {"slots": 2}}, "`parameters` is of an engine"),
        ({"engine": None, "endpoint": "http://127.0.0.1"}, "endpoint"),
        ({"engine": "ollama", "ignore_eos": True}, "`ignore_eos` is nothing that ollama takes"),
        ({"parameters": {"slots": 65}}, "slots"),
        ({"engine": "xllamacpp", "parameters": {"n_ctx": 256, "n_parallel": 8}}, "less than 64 tokens"),
        ({"temperature": 3}, "temperature"),
        ({"prompt": ""}, "prompt"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_it_is_queued(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected) as refused:
        read_spec("prompt", {**BRIEF, **wrong})

    assert words in refused.value.message
