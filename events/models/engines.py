"""The engines that there are, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from events.models.engine import Engine
from events.models.rows.command import COMMAND
from events.models.rows.llama_cpp import LLAMA_SERVER, XLLAMACPP
from events.models.rows.ollama import OLLAMA
from events.models.rows.sglang import SGLANG
from events.models.rows.transformers import TRANSFORMERS
from events.models.rows.vllm import VLLM

__all__ = ("ENGINES", "XLLAMACPP")

ENGINES: Final[Mapping[str, Engine]] = {
    each.name: each for each in (XLLAMACPP, LLAMA_SERVER, VLLM, SGLANG, OLLAMA, TRANSFORMERS, COMMAND)
}
