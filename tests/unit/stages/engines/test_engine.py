"""Rows of engines: their parameters, their command lines, and listings that lie."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from control_plane.model.groups.space import space_of
from events.models.engine import Engine, listed_names
from events.models.engines import ENGINES, XLLAMACPP
from events.models.parameter import Value
from events.models.rows.command import COMMAND, commanded
from events.models.rows.llama_cpp import LLAMA_SERVER
from events.models.rows.ollama import OLLAMA
from events.models.rows.sglang import SGLANG
from events.models.rows.transformers import TRANSFORMERS
from events.models.rows.vllm import VLLM
from events.runtime.errors import PipelineError
from stages.engines.failure import EngineFailed
from testing.engine_double.row import DOUBLE
from testing.engine_double.surface import BEST, FASTEST, noisy, refusal, tokens_per_s

FIELDS: dict[str, str | int] = {
    "python": "py",
    "model": "/a b.gguf",
    "port": 7,
    "alias": "one",
    "name": "two",
}
ROWS = [*ENGINES.values(), DOUBLE]


def test_what_is_left_out_has_its_default_and_threads_leave_a_core() -> None:
    settled = XLLAMACPP.settled({"n_parallel": 8}, cores=16)
    assert (settled["n_parallel"], settled["n_ctx"], settled["n_threads"]) == (8, 8_192, 15)
    assert XLLAMACPP.settled({"n_threads": 0}, cores=16)["n_threads"] == 15
    assert XLLAMACPP.settled({}, cores=1)["n_threads"] == 1
    assert VLLM.settled({}, cores=16) == {}, "everything is left to the engine"


@pytest.mark.parametrize(
    ("engine", "name", "value"),
    [
        (XLLAMACPP, "n_threads", 4),
        (XLLAMACPP, "n_threads", -1),
        (XLLAMACPP, "n_parallel", 257),
        (XLLAMACPP, "n_parallel", True),
        (XLLAMACPP, "n_parallel", "4"),
        (XLLAMACPP, "n_parallel", 2.5),
        (XLLAMACPP, "cache_type_k", "q3_k"),
        (XLLAMACPP, "cache_type_k", 3),
        (XLLAMACPP, "cont_batching", "yes"),
        (XLLAMACPP, "cont_batching", 1),
        (XLLAMACPP, "--model", "/etc/passwd"),
        (VLLM, "gpu_memory_utilization", 1.5),
        (VLLM, "gpu_memory_utilization", float("nan")),
        (VLLM, "gpu_memory_utilization", "0.9"),
        (VLLM, "enforce_eager", 1.0),
        (COMMAND, "size", "two\nlines"),
        (COMMAND, "size", float("inf")),
        (COMMAND, "-rf /", 1),
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name(engine: Engine, name: str, value: Value) -> None:
    with pytest.raises(PipelineError) as caught:
        engine.settled({name: value, "other one": -1}, cores=4)
    assert caught.value.code == "CONFIG"
    assert name in caught.value.message
    assert "other one" in caught.value.message, "every wrong one is named"


@pytest.mark.parametrize("engine", ROWS, ids=lambda each: each.name)
def test_every_row_is_whole(engine: Engine) -> None:
    assert engine.settled(engine.settled({}, cores=2), cores=2) == engine.settled({}, cores=2)
    assert len({each.name for each in engine.parameters}) == len(engine.parameters)
    known = {each.name for each in engine.parameters}
    assert {name for each in engine.impossible for name in each.of} <= known
    assert {engine.requests_in, engine.context_in, *engine.gpus_in} - {""} <= known
    for each in engine.parameters:
        for value in (each.default, each.usual, *(each.tried.values if each.tried else ())):
            assert value is None or each.settled(value, None) == value
        if each.tried and not each.tried.values:
            assert each.low <= each.tried.low < each.tried.high <= each.high
        if each.type == "switch" and not each.variable and engine.option != ("--{name}={value}",):
            assert each.on, "a switch has a word"
    assert not engine.problems(engine.sized(8, 1_000))


def test_the_command_line_has_each_parameter_once() -> None:
    words = XLLAMACPP.words(FIELDS, XLLAMACPP.settled({"kv_unified": True}, cores=2))
    assert words[:4] == ["py", "-P", "-m", "stages.engines.xllamacpp_server"]
    assert {"--model=/a b.gguf", "--port=7", "--alias=one", "--name=two", "--kv_unified=true"} <= set(words)
    assert len(words) == len(XLLAMACPP.command) + len(XLLAMACPP.parameters)


# As the documentation of each engine writes them.
RECORDED: list[tuple[Engine, dict[str, Value], str]] = [
    (
        LLAMA_SERVER,
        {"n_parallel": 8, "n_ctx": 16_384, "n_batch": 1_024, "flash_attn": "on", "cache_type_v": "q8_0",
         "n_gpu_layers": 99, "cont_batching": False, "kv_unified": True, "cache_prompt": False},
        "llama-server --model M --host 127.0.0.1 --port 7 --alias two,one --metrics --offline --no-ui "
        "--fit off "
        "--parallel 8 --ctx-size 16384 --threads 3 --batch-size 1024 --cache-type-v q8_0 --flash-attn on "
        "--n-gpu-layers 99 --no-cont-batching --kv-unified --no-cache-prompt",
    ),
    (
        VLLM,
        {"gpu_memory_utilization": 0.9, "max_num_seqs": 64, "max_num_batched_tokens": 4_096,
         "tensor_parallel_size": 2, "kv_cache_dtype": "fp8", "enable_prefix_caching": False,
         "enable_chunked_prefill": True, "enforce_eager": True},
        "vllm serve M --host 127.0.0.1 --port 7 --served-model-name two one --gpu-memory-utilization 0.9 "
        "--max-num-seqs 64 --max-num-batched-tokens 4096 --tensor-parallel-size 2 --kv-cache-dtype fp8 "
        "--no-enable-prefix-caching --enable-chunked-prefill --enforce-eager",
    ),
    (
        SGLANG,
        {"mem_fraction_static": 0.8, "max_running_requests": 128, "chunked_prefill_size": -1,
         "schedule_policy": "lpm", "schedule_conservativeness": 0.3, "disable_radix_cache": True,
         "disable_cuda_graph": False},
        "py -P -m sglang.launch_server --model-path M --host 127.0.0.1 --port 7 --served-model-name one "
        "--enable-metrics --mem-fraction-static 0.8 --max-running-requests 128 --chunked-prefill-size -1 "
        "--schedule-policy lpm --schedule-conservativeness 0.3 --disable-radix-cache",
    ),
    (
        TRANSFORMERS,
        {"continuous_batching": True, "dtype": "bfloat16", "attn_implementation": "sdpa"},
        "transformers serve M --host 127.0.0.1 --port 7 --continuous-batching "
        "--dtype bfloat16 --attn-implementation sdpa",
    ),
    (OLLAMA, {"num_parallel": 4}, "ollama serve"),
    (
        commanded("my-server --weights={model} --listen :{port} --as '{alias} {{x}}'"),
        {"max-batch": 4, "fast": True, "slow": False, "mode": "a b"},
        "my-server --weights=M --listen :7 --as 'one {x}' --max-batch 4 --fast --mode 'a b'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "given", "line"), RECORDED, ids=[each.name for each, *_ in RECORDED])
def test_a_command_line_is_that_of_its_documentation(
    engine: Engine, given: dict[str, Value], line: str
) -> None:
    assert shlex.join(engine.words({**FIELDS, "model": "M"}, engine.settled(given, cores=4))) == line


def test_an_engine_may_read_its_parameters_from_its_environment() -> None:
    settled = OLLAMA.settled({"num_parallel": 4, "flash_attention": True, "sched_spread": False}, cores=4)
    assert OLLAMA.environment(FIELDS, settled) == {
        "OLLAMA_HOST": "127.0.0.1:7", "OLLAMA_KEEP_ALIVE": "-1", "OLLAMA_NOPRUNE": "1",
        "OLLAMA_NUM_PARALLEL": "4", "OLLAMA_FLASH_ATTENTION": "1", "OLLAMA_SCHED_SPREAD": "0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "given", "gpus", "why"),
    [
        (XLLAMACPP, {"n_batch": 256, "n_ubatch": 512}, None, "n_ubatch is above n_batch"),
        (XLLAMACPP, {"n_batch": 512, "n_ubatch": 512}, None, None),
        (XLLAMACPP, {"cache_type_v": "q8_0", "flash_attn": "disabled"}, None, "needs flash attention"),
        (XLLAMACPP, {"cache_type_v": "q8_0"}, None, None),
        (XLLAMACPP, {"n_ctx": 1_024, "n_parallel": 64}, None, "less than 64 tokens"),
        (XLLAMACPP, {"n_ctx": 1_024, "n_parallel": 64, "kv_unified": True}, None, None),
        (LLAMA_SERVER, {"cache_type_v": "q4_0", "flash_attn": "off"}, None, "needs flash attention"),
        (VLLM, {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, 2, "is 4 GPUs, and this pod has 2"),
        (VLLM, {"tensor_parallel_size": 4}, 4, None),
        (VLLM, {"tensor_parallel_size": 4}, None, None),
        (VLLM, {"max_num_batched_tokens": 64, "max_num_seqs": 128}, None, "below max_num_seqs"),
        (
            VLLM,
            {"max_num_batched_tokens": 2_048, "max_model_len": 4_096, "enable_chunked_prefill": False},
            None,
            "fits into no step",
        ),
        (SGLANG, {"enable_mixed_chunk": True, "chunked_prefill_size": -1}, None, "needs prompts in parts"),
        (SGLANG, {"chunked_prefill_size": 0}, None, "16 tokens at least"),
        (OLLAMA, {"kv_cache_type": "q8_0", "flash_attention": False}, None, "needs flash attention"),
    ],
)
def test_a_combination_that_cannot_be_is_known_before_it_is_tried(
    engine: Engine, given: dict[str, Value], gpus: int | None, why: str | None
) -> None:
    problems = engine.problems(given, gpus=gpus)
    assert bool(problems) == bool(why)
    assert why is None or why in problems[0]


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("", "a template of the command is needed"),
        ("server --port {port} 'unclosed", "quotes or braces do not close"),
        ("server --port {port", "quotes or braces do not close"),
        ("server {model}", "no {port}"),
        ("server {port} {home}", "no field home"),
        ("server {port.__class__}", "no field port.__class__"),
        ("server {port:>9999999999}", "no field port:"),
        ("server {port!r}", "no field port"),
        ("{model} {port}", "its first word is the program"),
        ("run-{name} {port}", "its first word is the program"),
        ("server {port} " + "x" * 2_000, "more than 2,000"),
    ],
)
def test_a_template_that_is_none_says_why(template: str, why: str) -> None:
    with pytest.raises(PipelineError) as caught:
        commanded(template)
    assert (caught.value.code, why in caught.value.message) == ("CONFIG", True), caught.value.message


def test_a_template_decides_how_its_server_is_known_and_called() -> None:
    def of(template: str) -> tuple[str, str, str]:
        found = commanded(template)
        return found.needs, found.proof, found.called

    assert of("vllm serve {model} --port {port}") == ("vllm", "listener", "model")
    assert of("{python} -m x {port} {alias}") == ("", "alias", "alias")
    assert of("x {port} {alias} {name}") == ("x", "alias", "name")


def test_a_study_can_begin_with_what_a_row_proposes() -> None:
    tried = VLLM.space()
    assert tried["gpu_memory_utilization"] == {"type": "uniform", "low": 0.8, "high": 0.95}
    assert tried["enforce_eager"] == {"type": "values", "values": [True, False]}
    assert DOUBLE.space()["slots"] == {"type": "int", "low": 1, "high": 64}
    assert all(space_of(each.space()) for each in ROWS if each.parameters), "a control plane takes it"


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"data": [{"id": "a", "aliases": ["a", "b"]}, {"id": "c"}]}, ["a", "a", "b", "c"]),
        ({"data": {"id": "a"}}, []),
        ({"data": [{"id": 7, "aliases": "ab"}, "a", None]}, []),
        (["a"], []),
        (None, []),
    ],
)
def test_a_listing_may_hold_anything(answer: object, names: list[str]) -> None:
    assert listed_names(answer) == names


def test_the_double_has_one_best_configuration() -> None:
    grid: list[dict[str, Any]] = [
        {"slots": slots, "batch": batch, "threads": threads, "cache": cache, "flash": flash}
        for slots in (1, 2, 4, 8, 16, 32, 64)
        for batch in (64, 128, 256, 512, 1_024, 2_048)
        for threads in (1, 2, 4, 6, 8)
        for cache in ("f16", "q8", "q4")
        for flash in (True, False)
    ]
    ranked = sorted(grid, key=tokens_per_s, reverse=True)
    assert ranked[0] == BEST
    assert tokens_per_s(BEST) == FASTEST > tokens_per_s(ranked[1])
    assert refusal(BEST) is None
    refused = [each for each in grid if refusal(each)]
    assert 0.1 < len(refused) / len(grid) < 0.6
    assert noisy(100, 0.1, "a") == noisy(100, 0.1, "a") != noisy(100, 0.1, "b")
    assert noisy(100, 0.0, "a") == 100
    assert replace(DOUBLE, name="x").settled({**BEST}, cores=1) == BEST


def test_a_command_is_safe_to_paste() -> None:
    command = XLLAMACPP.command_line("a b; rm -rf /", "m", {"n_parallel": 2, "kv_unified": True})
    assert "'--model=a b; rm -rf /'" in command
    assert command.endswith("--n_parallel=2 --kv_unified=true")


def test_variables_of_an_engine_stand_before_its_command() -> None:
    ollama = ENGINES["ollama"]
    (name, value), *_ = ((each.name, each.low) for each in ollama.parameters if each.variable)
    assert ollama.command_line("m", "m", {name: int(value)}).startswith("env ")


@pytest.mark.parametrize(
    ("message", "is_killed"),
    [
        ("vllm ended (signal 9): its log is empty", True),
        ("vllm ended (signal 9; its container was killed for memory): x", True),
        ("vllm ended (status 1): I was killed (signal 9)", False),
        ("vllm was not ready within 3 s: worker ended (signal 9)", False),
    ],
)
def test_who_was_killed_is_not_taken_from_the_words_of_the_engine(message: str, is_killed: bool) -> None:
    assert EngineFailed(message, Path("engine.log")).is_killed is is_killed
