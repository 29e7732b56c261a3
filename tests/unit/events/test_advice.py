"""Advice on the last words of engines: as engines, libraries and Docker write them, and harmless ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from events.models.advice import CATEGORIES, LOOKED_AT_CHARS, TABLE, advice_on, category_of

# A code, and the end of a log that leads to it, whose lines are divided by \\n.
ENDS = [
    (code, end.replace("\\n", "\n"))
    for code, _, end in (
        line.partition(" ") for line in Path(__file__).with_name("log_ends.txt").read_text().splitlines()
    )
]


@pytest.mark.parametrize(("code", "end"), ENDS)
def test_the_end_of_a_log_leads_to_what_can_be_done(code: str, end: str) -> None:
    found = advice_on(f"INFO 11-27 09:00:00 loading\n{end}\nProcess exited\n")
    assert found is not None
    assert found.code == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INFO 11-27 09:00:00 [api_server.py:407] Available routes are: /health, /v1/models",
        'INFO: 127.0.0.1:40112 - "GET /health HTTP/1.1" 200 OK',
        "main: server is listening on http://127.0.0.1:42901 - starting the main loop",
        "llama_kv_cache: CPU KV buffer size = 429.00 MiB",
        "GPU KV cache size: 1,401,429 tokens; maximum concurrency for 4,096 tokens per request: 342.14x",
        "slot launch_slot_: id 3 | task 401 | processing task",
        "Fetching 4 files: 100%|##########| 4/4",
        "Segmentation fault (core dumped)",
        "prompt eval time = 403.2 ms / 429 tokens",
        "Using max model len 2048, tensor_parallel_size 1, gpu_memory_utilization 0.9",
    ],
)
def test_words_that_say_nothing_known_have_no_advice(text: str) -> None:
    assert advice_on(text) is None


def test_one_that_is_offline_lacks_the_model_whatever_it_says_of_the_network() -> None:
    said = "OSError: We couldn't connect to 'https://hub.example' to load the files"
    assert [each and each.code for each in (advice_on(said), advice_on(said, is_offline=True))] == [
        "NETWORK", "OFFLINE"
    ]  # fmt: skip
    assert advice_on("CUDA out of memory", is_offline=True) == advice_on("CUDA out of memory")
    assert advice_on("nothing", is_offline=True) is None


def test_only_the_end_counts_and_a_long_log_costs_little() -> None:
    assert advice_on("CUDA out of memory" + " " * LOOKED_AT_CHARS) is None
    begun_s = time.process_time()
    for line in ("ggml_" * 5_000, "access to model " * 2_000, "huggingface 40" * 2_000, "model '" * 4_000):
        advice_on(line)
    assert time.process_time() - begun_s < 10


def test_every_code_is_told_once_in_words_for_people() -> None:
    assert {code for code, _ in ENDS} == {advice.code for advice, _ in TABLE}
    assert len({advice.code for advice, _ in TABLE}) == len(TABLE)
    assert all(advice.words[0].isupper() and not advice.words.endswith(".") for advice, _ in TABLE)


@pytest.mark.parametrize(
    ("code", "message", "category"),
    [
        ("CUDA_UNSUPPORTED_ARCH", "", "cuda_unsupported_arch"),
        ("RuntimeError", "CUDA error: no kernel image is available for execution", "cuda_unsupported_arch"),
        ("ENGINE_FAILED", "status 1: torch.OutOfMemoryError: CUDA out of memory.", "oom"),
        ("OUT_OF_MEMORY", "", "oom"),
        ("NOT_AVAILABLE", "the server has no checkpoint 'xl'", "missing_checkpoint"),
        ("ENGINE_FAILED", "Error: model 'qwen3:8b' not found", "missing_checkpoint"),
        ("ConnectError", "[Errno 111] Connection refused", "unreachable"),
        ("MODEL_UNREACHABLE", "", "unreachable"),
        ("ValueError", "the seed is odd", "unknown"),
    ],
)
def test_a_failure_of_a_run_of_any_kind_has_a_category_with_what_to_do(
    code: str, message: str, category: str
) -> None:
    found = category_of(code, message)
    assert found.code == category
    assert bool(found.words) is (category != "unknown")


def test_every_category_stands_on_causes_of_the_table() -> None:
    assert CATEGORIES.keys() <= {advice.code for advice, _ in TABLE}
