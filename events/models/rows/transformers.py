"""`transformers serve`, pure: its name of a model is that of the hub, or its folder, and it takes no alias.

It answers 422 to a field that it does not know, and so must not be sent `ignore_eos`.
"""

from __future__ import annotations

from typing import Final

from events.models.engine import Engine
from events.models.parameter import Parameter, Tried

TRANSFORMERS: Final = Engine(
    name="transformers",
    title="transformers serve, as a program of this pod",
    needs="transformers",
    needs_is="program",
    install="pip install 'transformers[serving]' torch beside the worker, and its folder on the PATH",
    command=("transformers", "serve", "{model}", "--host", "127.0.0.1", "--port", "{port}"),
    option=("--{dashed}", "{value}"),
    weights="hub",
    called="model",
    proof="listener",
    takes_ignore_eos=False,
    metrics="",
    parameters=(
        Parameter(
            name="continuous_batching",
            says="requests join a batch that runs; without it one after the other",
            type="switch",
            usual=False,
            on=("--continuous-batching",),
            off=("--no-continuous-batching",),
            costs="memory",
            tried=Tried(values=(True, False)),
        ),
        Parameter(
            name="dtype",
            says="type of weights and computations",
            type="choice",
            usual="auto",
            choices=("auto", "float16", "bfloat16", "float32"),
            tried=Tried(values=("float16", "bfloat16")),
        ),
        Parameter(
            name="attn_implementation",
            says="how attention is computed",
            type="choice",
            choices=("eager", "sdpa", "flash_attention_2"),
            tried=Tried(values=("eager", "sdpa")),
        ),
        Parameter(
            name="compile",
            says="kernels are compiled at the start",
            type="switch",
            usual=False,
            on=("--compile",),
            off=("--no-compile",),
            costs="minutes at the start",
            tried=Tried(values=(True, False)),
        ),
        Parameter(
            name="cb_max_batch_tokens",
            says="tokens of a batch, with continuous batching",
            type="whole",
            low=16,
            high=1 << 20,
            costs="memory",
            tried=Tried(values=(256, 512, 1_024, 2_048)),
        ),
        Parameter(
            name="cb_num_blocks",
            says="blocks of the cache, with continuous batching",
            type="whole",
            low=1,
            high=1 << 24,
            costs="memory",
        ),
        Parameter(
            name="cb_max_memory_percent",
            says="share of the memory for the cache, with continuous batching",
            type="number",
            low=0.05,
            high=1.0,
            costs="memory",
            tried=Tried(0.5, 0.9),
        ),
        Parameter(
            name="quantization",
            says="how the weights are quantised",
            type="choice",
            choices=("bnb-4bit", "bnb-8bit"),
            costs="quality; needs bitsandbytes",
        ),
    ),
)
