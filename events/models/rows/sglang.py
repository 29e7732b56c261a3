"""SGLang, pure: `python -m sglang.launch_server`, as its documentation of 2026 has it."""

from __future__ import annotations

from typing import Final

from events.models.engine import Engine
from events.models.parameter import Impossible, Parameter, Tried

BOTH: Final = Tried(values=(True, False))


def _switch(name: str, says: str, costs: str = "") -> Parameter:
    """Return a switch that is off where nothing is said."""
    return Parameter(
        name=name,
        says=says,
        type="switch",
        usual=False,
        costs=costs,
        tried=BOTH,
        on=(f"--{name.replace('_', '-')}",),
    )


SGLANG: Final = Engine(
    name="sglang",
    title="SGLang, in this Python or as an image",
    needs="sglang",
    install="pip install sglang into the Python of the worker",
    image="lmsysorg/sglang:latest",
    command=(
        "{python}",
        "-P",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "{model}",
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        "--served-model-name",
        "{alias}",
        "--enable-metrics",
    ),
    option=("--{dashed}", "{value}"),
    weights="hub",
    requests_in="max_running_requests",
    context_in="context_length",
    uncached=(("disable_radix_cache", True),),
    gpus_in=("tensor_parallel_size", "data_parallel_size"),
    parameters=(
        Parameter(
            name="mem_fraction_static",
            says="share of the GPU's memory for weights and cache",
            type="number",
            low=0.05,
            high=0.99,
            costs="memory of the GPU; close to 1 it may run out of it",
            tried=Tried(0.75, 0.92),
        ),
        Parameter(
            name="max_running_requests",
            says="requests that are answered at once",
            type="whole",
            low=1,
            high=8_192,
            costs="time per token of each",
            tried=Tried(values=(16, 32, 64, 128, 256, 512)),
        ),
        Parameter(
            name="context_length",
            says="tokens of context of a request",
            type="whole",
            low=16,
            high=1 << 24,
            costs="memory for the cache",
        ),
        Parameter(
            name="chunked_prefill_size",
            says="tokens of a part of a prompt; -1 reads prompts whole",
            type="whole",
            low=-1,
            high=1 << 20,
            costs="time per token of others while a prompt is read; memory",
            tried=Tried(values=(1_024, 2_048, 4_096, 8_192)),
        ),
        Parameter(
            name="max_prefill_tokens",
            says="tokens of prompts in a batch",
            type="whole",
            usual=16_384,
            low=16,
            high=1 << 20,
            tried=Tried(values=(4_096, 8_192, 16_384, 32_768)),
        ),
        Parameter(
            name="schedule_policy",
            says="which request is next",
            type="choice",
            usual="fcfs",
            choices=("lpm", "random", "fcfs", "dfs-weight", "lof"),
            tried=Tried(values=("fcfs", "lpm")),
        ),
        Parameter(
            name="schedule_conservativeness",
            says="how much room is left for requests that run",
            type="number",
            usual=1.0,
            low=0.0,
            high=10.0,
            costs="low: requests are put back when room runs out",
            tried=Tried(0.3, 1.3),
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
            name="data_parallel_size",
            says="copies of the model, a GPU or more each",
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
            choices=("auto", "fp8_e5m2", "fp8_e4m3", "bfloat16"),
            costs="quality, below 16 bits",
            tried=Tried(values=("auto", "fp8_e4m3")),
        ),
        Parameter(
            name="quantization",
            says="how the weights are quantised",
            type="choice",
            choices=("awq", "fp8", "gptq", "bitsandbytes", "w8a8_int8", "w8a8_fp8"),
            costs="quality",
        ),
        Parameter(
            name="page_size",
            says="tokens of a page of the cache",
            type="whole",
            usual=1,
            low=1,
            high=256,
            tried=Tried(values=(1, 16, 64)),
        ),
        _switch("disable_radix_cache", "the common beginning of prompts is not kept"),
        _switch("disable_cuda_graph", "no CUDA graphs", "time per token; it starts sooner"),
        _switch("enable_mixed_chunk", "parts of prompts and tokens of others in one step"),
        _switch("enable_torch_compile", "kernels are compiled at the start", "minutes at the start"),
    ),
    impossible=(
        Impossible(
            says="enable_mixed_chunk needs prompts in parts, and chunked_prefill_size turns that off",
            of=("enable_mixed_chunk", "chunked_prefill_size"),
            is_so=lambda given: bool(given["enable_mixed_chunk"]) and int(given["chunked_prefill_size"]) < 1,
        ),
        Impossible(
            says="chunked_prefill_size is -1, or 16 tokens at least",
            of=("chunked_prefill_size",),
            is_so=lambda given: -1 < int(given["chunked_prefill_size"]) < 16,
        ),
    ),
)
