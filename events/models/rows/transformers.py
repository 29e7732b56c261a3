"""`transformers serve`, pure: it loads the model that the first request names, and lists no alias.

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
    command=("transformers", "serve", "--host", "127.0.0.1", "--port", "{port}", "--model-timeout=-1"),
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
            name="quantization",
            says="how the weights are quantised",
            type="choice",
            choices=("bnb-4bit", "bnb-8bit"),
            costs="quality; needs bitsandbytes",
        ),
    ),
)
