"""vLLM, pure: `vllm serve`, as its documentation of 2026 has it."""

from __future__ import annotations

from typing import Final

from events.models.engine import Engine
from events.models.parameter import Impossible, Parameter, Tried

BOTH: Final = Tried(values=(True, False))


def _switch(name: str, says: str, costs: str = "", usual: bool | None = None) -> Parameter:
    """Return a switch that has a word for either side."""
    dashed = name.replace("_", "-")
    return Parameter(
        name=name,
        says=says,
        type="switch",
        usual=usual,
        costs=costs,
        tried=BOTH,
        on=(f"--{dashed}",),
        off=(f"--no-{dashed}",),
    )


VLLM: Final = Engine(
    name="vllm",
    title="vLLM, as a program or an image",
    needs="vllm",
    needs_is="program",
    install="pip install vllm beside the worker, and its folder on the PATH",
    image="vllm/vllm-openai:latest",
    command=(
        "vllm",
        "serve",
        "{model}",
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        "--served-model-name",
        "{name}",
        "{alias}",
    ),
    option=("--{dashed}", "{value}"),
    weights="hub",
    called="name",
    requests_in="max_num_seqs",
    context_in="max_model_len",
    uncached=(("enable_prefix_caching", False),),
    gpus_in=("tensor_parallel_size", "pipeline_parallel_size"),
    parameters=(
        Parameter(
            name="gpu_memory_utilization",
            says="share of the GPU's memory that it takes",
            type="number",
            usual=0.92,
            low=0.05,
            high=1.0,
            costs="memory of the GPU; close to 1 it may run out of it",
            tried=Tried(0.8, 0.95),
        ),
        Parameter(
            name="max_num_seqs",
            says="requests that are answered at once",
            type="whole",
            low=1,
            high=8_192,
            costs="time per token of each; memory",
            tried=Tried(values=(16, 32, 64, 128, 256, 512)),
        ),
        Parameter(
            name="max_num_batched_tokens",
            says="tokens computed in one step",
            type="whole",
            low=32,
            high=1 << 20,
            costs="time per token of others while a prompt is read; memory",
            tried=Tried(values=(1_024, 2_048, 4_096, 8_192, 16_384)),
        ),
        Parameter(
            name="max_model_len",
            says="tokens of context of a request",
            type="whole",
            low=16,
            high=1 << 24,
            costs="memory for the cache",
        ),
        Parameter(
            name="tensor_parallel_size",
            says="GPUs among which each layer is divided",
            type="whole",
            usual=1,
            low=1,
            high=64,
            costs="GPUs",
            tried=Tried(values=(1, 2, 4, 8)),
        ),
        Parameter(
            name="pipeline_parallel_size",
            says="GPUs among which the layers are divided",
            type="whole",
            usual=1,
            low=1,
            high=64,
            costs="GPUs",
        ),
        Parameter(
            name="dtype",
            says="type of weights and computations",
            type="choice",
            usual="auto",
            choices=("auto", "half", "float16", "bfloat16", "float", "float32"),
        ),
        Parameter(
            name="kv_cache_dtype",
            says="type of the cached keys and values",
            type="choice",
            usual="auto",
            choices=("auto", "fp8", "fp8_e4m3", "fp8_e5m2"),
            costs="quality, below 16 bits",
            tried=Tried(values=("auto", "fp8")),
        ),
        Parameter(
            name="quantization",
            says="how the weights are quantised",
            type="choice",
            choices=("awq", "gptq", "fp8", "bitsandbytes"),
            costs="quality",
        ),
        Parameter(
            name="block_size",
            says="tokens of a block of the cache",
            type="whole",
            usual=16,
            low=1,
            high=256,
            tried=Tried(values=(16, 32, 64)),
        ),
        Parameter(
            name="cpu_offload_gb",
            says="gibibytes of weights that stay in the memory of the pod",
            type="number",
            usual=0.0,
            low=0,
            high=4_096,
            costs="speed: they cross the bus at each step",
        ),
        _switch("enable_prefix_caching", "the common beginning of prompts is kept", usual=True),
        _switch(
            "enable_chunked_prefill",
            "long prompts are read in parts, between tokens of others",
            "time to the first token of long prompts",
            usual=True,
        ),
        _switch("async_scheduling", "the next step is scheduled while one is computed"),
        Parameter(
            name="enforce_eager",
            says="no CUDA graphs",
            type="switch",
            usual=False,
            on=("--enforce-eager",),
            costs="time per token; it starts sooner and takes less memory",
            tried=BOTH,
        ),
    ),
    impossible=(
        Impossible(
            says="max_num_batched_tokens is below max_num_seqs: a step has a token of each request at least",
            of=("max_num_batched_tokens", "max_num_seqs"),
            is_so=lambda given: int(given["max_num_batched_tokens"]) < int(given["max_num_seqs"]),
        ),
        Impossible(
            says="max_num_batched_tokens is below max_model_len, and enable_chunked_prefill is off: "
            "a long prompt fits into no step",
            of=("max_num_batched_tokens", "max_model_len", "enable_chunked_prefill"),
            is_so=lambda given: (
                not given["enable_chunked_prefill"]
                and int(given["max_num_batched_tokens"]) < int(given["max_model_len"])
            ),
        ),
    ),
)
