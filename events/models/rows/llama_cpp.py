"""The server of llama.cpp, out of a wheel and as a program, pure.

Both have the same parameters by the same names: a study of one can go on with the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from events.models.engine import Engine
from events.models.parameter import Impossible, Parameter, Tried

CACHE_TYPES: Final = ("f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
FULL_TYPES: Final = ("f16", "f32", "bf16")
CACHE_TRIED: Final = Tried(values=("f16", "q8_0", "q4_0"))

_UBATCH: Final = Impossible(
    says="n_ubatch is above n_batch: the engine would lower it without a word",
    of=("n_batch", "n_ubatch"),
    is_so=lambda given: int(given["n_ubatch"]) > int(given["n_batch"]),
)
_CACHE: Final = Impossible(
    says="cache_type_v is quantised, which needs flash attention, and flash_attn turns that off",
    of=("cache_type_v", "flash_attn"),
    is_so=lambda given: (
        given["cache_type_v"] not in FULL_TYPES and given["flash_attn"] in ("disabled", "off")
    ),
)
_SLOTS: Final = Impossible(
    says="n_ctx gives each of n_parallel requests less than 64 tokens of context",
    of=("n_ctx", "n_parallel"),
    is_so=lambda given: (
        not given.get("kv_unified", False) and int(given["n_ctx"]) < 64 * int(given["n_parallel"])
    ),
)

PARAMETERS: Final = (
    Parameter(
        name="n_parallel",
        says="requests that are answered at once",
        type="whole",
        default=4,
        low=1,
        high=256,
        costs="memory: each has its share of the context",
        tried=Tried(1, 16),
        option="--parallel",
    ),
    Parameter(
        name="n_ctx",
        says="tokens of context, divided among these requests",
        type="whole",
        default=8_192,
        low=256,
        high=1 << 20,
        costs="memory for the cache of each token",
        option="--ctx-size",
    ),
    Parameter(
        name="n_threads",
        says="threads that compute; one core is left to others, and 0 is all but that one",
        type="whole",
        default=0,
        low=0,
        high=1_024,
        leaves_a_core=True,
        costs="cores of the pod",
        tried=Tried(1, 16),
        option="--threads",
    ),
    Parameter(
        name="n_batch",
        says="tokens of prompts in a batch",
        type="whole",
        default=2_048,
        low=32,
        high=65_536,
        costs="memory, and others wait longer for a prompt",
        tried=Tried(values=(256, 512, 1_024, 2_048, 4_096)),
        option="--batch-size",
    ),
    Parameter(
        name="n_ubatch",
        says="tokens computed at once",
        type="whole",
        default=512,
        low=32,
        high=65_536,
        costs="memory for what is computed",
        tried=Tried(values=(64, 128, 256, 512, 1_024)),
        option="--ubatch-size",
    ),
    Parameter(
        name="cache_type_k",
        says="type of the cached keys",
        type="choice",
        default="f16",
        choices=CACHE_TYPES,
        costs="quality, below 8 bits",
        tried=CACHE_TRIED,
        option="--cache-type-k",
    ),
    Parameter(
        name="cache_type_v",
        says="type of the cached values",
        type="choice",
        default="f16",
        choices=CACHE_TYPES,
        costs="quality, below 8 bits; needs flash attention",
        tried=CACHE_TRIED,
        option="--cache-type-v",
    ),
    Parameter(
        name="flash_attn",
        says="flash attention",
        type="choice",
        default="auto",
        choices=("auto", "enabled", "disabled"),
        tried=Tried(values=("enabled", "disabled")),
    ),
    Parameter(
        name="n_gpu_layers",
        says="layers that a GPU computes, with a build for GPUs",
        type="whole",
        default=0,
        low=0,
        high=10_000,
        costs="memory of the GPU",
        option="--n-gpu-layers",
    ),
    Parameter(
        name="cont_batching",
        says="requests join a batch that runs",
        type="switch",
        default=True,
        tried=Tried(values=(True, False)),
    ),
    Parameter(
        name="kv_unified",
        says="requests share one cache",
        type="switch",
        default=False,
        costs="a long request can take the context of others",
        tried=Tried(values=(True, False)),
    ),
    Parameter(
        name="cache_prompt",
        says="the common beginning of prompts is kept",
        type="switch",
        default=True,
        costs="nothing but memory; it answers repeated prompts faster than new ones",
    ),
)

XLLAMACPP: Final = Engine(
    name="xllamacpp",
    title="the server of llama.cpp, out of a wheel",
    needs="xllamacpp",
    install="pip install 'podfleet[serving]' on this pod",
    # -P: nothing is imported from the folder of a run
    command=(
        "{python}",
        "-P",
        "-m",
        "stages.engines.xllamacpp_server",
        "--model={model}",
        "--port={port}",
        "--alias={alias}",
        "--name={name}",
    ),
    option=("--{name}={value}",),
    parameters=tuple(replace(each, option="") for each in PARAMETERS),
    impossible=(_UBATCH, _CACHE, _SLOTS),
    called="name",
    requests_in="n_parallel",
    context_in="n_ctx",
    is_context_shared=True,
    uncached=(("cache_prompt", False),),
)


def _of_program(each: Parameter) -> Parameter:
    """Return a parameter as `llama-server` has it, which decides itself what is not said."""
    if each.leaves_a_core:
        return each
    if each.type != "switch":
        flags = ("on", "off", "auto") if each.name == "flash_attn" else each.choices
        tried = Tried(values=("on", "off")) if each.name == "flash_attn" else each.tried
        usual = None if each.name in ("n_parallel", "n_ctx", "n_gpu_layers") else each.default
        option = each.option or "--flash-attn"
        return replace(each, default=None, usual=usual, choices=flags, tried=tried, option=option)
    dashed = each.name.replace("_", "-")
    return replace(
        each, default=None, usual=each.default, on=(f"--{dashed}",), off=(f"--no-{dashed}",), option=""
    )


LLAMA_SERVER: Final = Engine(
    name="llama-server",
    title="the server of llama.cpp, as a program of this pod",
    needs="llama-server",
    needs_is="program",
    install="put a build of llama.cpp on the PATH of the worker",
    command=(
        "llama-server",
        "--model",
        "{model}",
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        "--alias",
        "{name},{alias}",
        "--metrics",
        "--offline",
        "--no-ui",
        "--fit",
        "off",
    ),
    option=("--{dashed}", "{value}"),
    parameters=tuple(_of_program(each) for each in PARAMETERS),
    impossible=(_UBATCH, _CACHE, _SLOTS),
    called="name",
    requests_in="n_parallel",
    context_in="n_ctx",
    is_context_shared=True,
    uncached=(("cache_prompt", False),),
)
