"""The engines that there are, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from events.models.engine import Engine, Parameter

CACHE_TYPES: Final = ("f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")

XLLAMACPP: Final = Engine(
    name="xllamacpp",
    title="the server of llama.cpp, out of a wheel",
    needs="xllamacpp",
    extra="serving",
    # -P: nothing is imported from the folder of a run
    command=(
        "{python}", "-P", "-m", "stages.engines.xllamacpp_server",
        "--model={model}", "--port={port}", "--alias={alias}", "--name={name}",
    ),
    option="--{name}={value}",
    parameters=(
        Parameter(
            name="n_parallel", says="requests that are answered at once", default=4, low=1, high=256
        ),
        Parameter(
            name="n_ctx", says="tokens of context, divided among these requests", default=8_192,
            low=256, high=1 << 20,
        ),
        Parameter(
            name="n_threads", says="threads that compute; one core is left to others", default=1, low=1,
            leaves_a_core=True,
        ),
        Parameter(name="n_batch", says="tokens of prompts in a batch", default=2_048, low=32, high=65_536),
        Parameter(name="n_ubatch", says="tokens computed at once", default=512, low=32, high=65_536),
        Parameter(name="cache_type_k", says="type of the cached keys", default="f16", choices=CACHE_TYPES),
        Parameter(name="cache_type_v", says="type of the cached values", default="f16", choices=CACHE_TYPES),
        Parameter(
            name="flash_attn", says="flash attention", default="auto", choices=("auto", "enabled", "disabled")
        ),
        Parameter(
            name="n_gpu_layers", says="layers that a GPU computes, with a build for GPUs", default=0,
            low=0, high=10_000,
        ),
        Parameter(name="cont_batching", says="requests join a batch that runs", default=True),
        Parameter(name="kv_unified", says="requests share one cache", default=False),
        Parameter(name="cache_prompt", says="the common beginning of prompts is kept", default=True),
    ),
)  # fmt: skip

ENGINES: Final[Mapping[str, Engine]] = {each.name: each for each in (XLLAMACPP,)}
