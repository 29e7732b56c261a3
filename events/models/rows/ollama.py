"""Ollama, pure: `ollama serve`, which reads its parameters from its environment.

It has one name for a model, that of its own library, so that who listens at the port proves that it is ours.
"""

from __future__ import annotations

from typing import Final

from events.models.engine import Engine
from events.models.parameter import Impossible, Parameter, Tried

BOTH: Final = Tried(values=(True, False))

OLLAMA: Final = Engine(
    name="ollama",
    title="Ollama, as a program of this pod",
    needs="ollama",
    needs_is="program",
    install="put ollama on the PATH of the worker, and pull the model into OLLAMA_MODELS",
    command=("ollama", "serve"),
    option=(),
    variables=(("OLLAMA_HOST", "127.0.0.1:{port}"), ("OLLAMA_KEEP_ALIVE", "-1"), ("OLLAMA_NOPRUNE", "1")),
    weights="library",
    called="model",
    proof="listener",
    takes_ignore_eos=False,
    health="/api/version",
    metrics="",
    requests_in="num_parallel",
    context_in="context_length",
    parameters=(
        Parameter(
            name="num_parallel",
            says="requests that are answered at once",
            type="whole",
            low=1,
            high=256,
            costs="memory: each has a context of its own",
            tried=Tried(1, 16),
            variable="OLLAMA_NUM_PARALLEL",
        ),
        Parameter(
            name="context_length",
            says="tokens of context of a request",
            type="whole",
            low=128,
            high=1 << 20,
            costs="memory for the cache",
            variable="OLLAMA_CONTEXT_LENGTH",
        ),
        Parameter(
            name="flash_attention",
            says="flash attention",
            type="switch",
            tried=BOTH,
            variable="OLLAMA_FLASH_ATTENTION",
        ),
        Parameter(
            name="kv_cache_type",
            says="type of the cached keys and values",
            type="choice",
            usual="f16",
            choices=("f16", "q8_0", "q4_0"),
            costs="quality, below 8 bits; needs flash attention",
            tried=Tried(values=("f16", "q8_0", "q4_0")),
            variable="OLLAMA_KV_CACHE_TYPE",
        ),
        Parameter(
            name="max_queue",
            says="requests that may wait",
            type="whole",
            usual=512,
            low=1,
            high=100_000,
            variable="OLLAMA_MAX_QUEUE",
        ),
        Parameter(
            name="sched_spread",
            says="a model is divided among all GPUs",
            type="switch",
            usual=False,
            costs="GPUs",
            variable="OLLAMA_SCHED_SPREAD",
        ),
    ),
    impossible=(
        Impossible(
            says="kv_cache_type is quantised, which needs flash attention, and flash_attention is off",
            of=("kv_cache_type", "flash_attention"),
            is_so=lambda given: given["kv_cache_type"] != "f16" and not given["flash_attention"],
        ),
    ),
)
