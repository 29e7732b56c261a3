"""genai-bench, a load generator of others: how it is asked for a load, and what it tells, by our names; pure.

It has no seed and no requests before its figures, asks for about as many requests as it is told to, and
writes what became of each of them: so its figures are made of these, as those of the own client are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from events.text.traffic import Embedding, Fixed, Normal, TextScenario
from stages.engines.load.measurement import Answered, Measurement
from stages.engines.load.plan import Load, Target

PROGRAM: Final = "genai-bench"
INSTALL: Final = f"pip install {PROGRAM} into an environment on the pod's PATH"
API: Final = "/v1"
RESULTS: Final = "told"
REPORTS: Final = ("*num_concurrency_*_time_*.json", "*batch_size_*_time_*.json")
FAILED: Final = "debug_for_run_*.json"  # written where no request was answered
REPORT_BYTES_MAX: Final = 256 << 20
REQUESTS_MAX: Final = 1_000_000
TOKENS_MAX: Final = 100_000_000
STATUSES: Final = range(100, 600)
ROUNDED_S: Final = 0.001
# A word is a token: its prompts have about the length that was asked for, and nothing is downloaded.
TOKENIZER: Final[Mapping[str, Mapping[str, object]]] = {
    "tokenizer.json": {
        "version": "1.0",
        **dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder")),
        "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "</s>": 1, "the": 2}, "unk_token": "<unk>"},
        "pre_tokenizer": {"type": "Whitespace"},
    },
    "tokenizer_config.json": {
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "</s>",
    },
}  # fmt: skip

Seconds = Annotated[float, msgspec.Meta(ge=0, le=7 * 24 * 3600)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]


class _Request(msgspec.Struct):
    ttft: Seconds | None = None
    e2e_latency: Seconds | None = None
    num_input_tokens: Tokens | None = None
    num_output_tokens: Tokens | None = None
    error_code: int | str | None = None
    error_message: str | None = None


class _Whole(msgspec.Struct):
    run_duration: Seconds


class _Report(msgspec.Struct):
    aggregated_metrics: _Whole
    individual_request_metrics: Annotated[list[_Request], msgspec.Meta(max_length=REQUESTS_MAX)]
    time_unit: Literal["s"] = msgspec.field(name="_time_unit")


_REPORTS: Final = msgspec.json.Decoder(_Report)


def write_tokenizer(folder: Path) -> str:
    """Write a tokenizer to which a word is a token, and return what it is named by."""
    folder.mkdir(exist_ok=True)
    for name, content in TOKENIZER.items():
        (folder / name).write_text(json.dumps(content))
    return str(folder)


def command(program: str, target: Target, load: Load, *, tokenizer: str, folder: Path) -> Sequence[str]:
    """Return what measures a load; its results are below `RESULTS` in the folder. Raises `ValueError`."""
    base_url = target.base_url.rstrip("/")
    if not base_url.endswith(API):
        raise ValueError(f"{PROGRAM} asks below {API} alone, not {base_url}")
    if load.concurrency is None:
        raise ValueError(f"{PROGRAM} has no open loop")
    is_chat = load.lengths.asks == "chat"
    # only its rows of these engines send `ignore_eos`
    api = "vllm" if target.takes_ignore_eos else "openai"
    loads = [f"--num-concurrency={load.concurrency}", *([] if is_chat else ["--batch-size=1"])]
    prefix = [f"--prefix-len={load.shared_prefix_tokens}"] if load.shared_prefix_tokens else []
    return [
        *f"{program} benchmark".rsplit(maxsplit=1), "--metrics-time-unit=s", f"--api-backend={api}",
        f"--api-base={base_url.removesuffix(API)}",
        f"--api-key={target.key or 'none'}", f"--api-model-name={target.model}",
        f"--model-tokenizer={tokenizer}", f"--task=text-to-{'text' if is_chat else 'embeddings'}",
        *loads, f"--traffic-scenario={load.scenario}", *prefix,
        f"--max-time-per-run={max(1, math.floor(load.limit_s / 60))}",  # it knows minutes
        f"--max-requests-per-run={load.requests}",
        f"--experiment-base-dir={folder}", f"--experiment-folder-name={RESULTS}",
    ]  # fmt: skip


def figures(report: bytes, load: Load, took_s: float) -> Measurement:
    """Return the figures of a report, of a program that took so long. Raises `ValueError`."""
    try:
        told = _REPORTS.decode(report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    wanted_in = round(_mean_in(load.lengths))
    found = Measurement(limits=load.limits, by=PROGRAM, seconds=told.aggregated_metrics.run_duration)
    is_chat = load.lengths.asks == "chat"
    for each in told.individual_request_metrics:
        found.add(_answered(each, wanted_in, is_chat=is_chat))
    if not found.requests:
        raise ValueError("it made no request")
    longest_s = found.values().get("e2e_max_s", 0.0)
    is_short = found.requests > found.errors and not longest_s <= found.seconds + ROUNDED_S > ROUNDED_S
    if is_short or found.seconds > took_s:
        raise ValueError(f"its run cannot have taken {found.seconds:g} s")
    return found


def _answered(told: _Request, wanted_in: int, *, is_chat: bool) -> Answered:
    if told.error_code not in (None, 0):
        code = told.error_code
        name = str(code) if isinstance(code, int) and code in STATUSES else "stream_error"
        said = told.error_message or str(code)
        return Answered(
            due_s=0.0, sent_s=0.0, timed_s=0.0, ended_s=0.0, wanted_in=wanted_in, tokens_in=0,
            failure=name, said=said,
        )  # fmt: skip
    if told.e2e_latency is None or told.num_input_tokens is None or told.ttft is None:
        raise ValueError("a request has neither times nor an error")
    if told.ttft > told.e2e_latency:
        raise ValueError("a request had its first token after its last")
    return Answered(
        due_s=0.0,
        sent_s=0.0,
        timed_s=0.0,
        first_s=told.ttft if is_chat else None,
        ended_s=told.e2e_latency,
        wanted_in=wanted_in,
        tokens_in=told.num_input_tokens,
        tokens_out=(told.num_output_tokens or 0) if is_chat else 0,
        is_counted=True,
    )


def _mean_in(scenario: TextScenario) -> float:
    """Return how many tokens its prompts were to have; it does not tell that of each."""
    match scenario:
        case Fixed(tokens_in=tokens) | Embedding(tokens_in=tokens) | Normal(mean_in=tokens):
            return tokens
        case _:
            return (scenario.least_in + scenario.most_in) / 2
