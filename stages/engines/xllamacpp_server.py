"""`python -m stages.engines.xllamacpp_server`: the server of llama.cpp in this process, until SIGTERM."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import xllamacpp

from events.models.engines import XLLAMACPP
from events.models.parameter import Parameter
from stages.engines.processes import LOOPBACK

FLASH: Final = {each: f"LLAMA_FLASH_ATTN_TYPE_{each.upper()}" for each in ("auto", "enabled", "disabled")}


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # threads of the server inherit that
    arguments = vars(_parser().parse_args(argv))
    _server = xllamacpp.Server(_parameters(arguments))  # it serves in threads of its own
    signal.sigwait(ends)
    os._exit(0)  # a server that is ended waits for its streams


def _parameters(arguments: Mapping[str, Any]) -> Any:
    wanted = xllamacpp.CommonParams()
    wanted.model.path = arguments["model"]
    wanted.port = arguments["port"]
    wanted.hostnames = [LOOPBACK]
    wanted.model_alias = {arguments["alias"], arguments["name"]}
    for name in ("n_parallel", "n_ctx", "n_batch", "n_ubatch", "n_gpu_layers"):
        setattr(wanted, name, arguments[name])
    for name in ("cont_batching", "kv_unified", "cache_prompt"):
        setattr(wanted, name, arguments[name] == "true")
    for name in ("cache_type_k", "cache_type_v"):
        setattr(wanted, name, xllamacpp.ggml_type.__members__[f"GGML_TYPE_{arguments[name].upper()}"])
    wanted.flash_attn_type = xllamacpp.llama_flash_attn_type.__members__[FLASH[arguments["flash_attn"]]]
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = arguments["n_threads"]
    wanted.endpoint_metrics = True
    wanted.use_jinja = True
    wanted.offline = True
    wanted.ui = False
    wanted.fit_params = False  # what is asked for holds, or the start fails
    wanted.cache_ram_mib = 0  # else prompts of requests that ended take gigabytes
    return wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stages.engines.xllamacpp_server")
    for name in ("model", "alias", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--port", type=int, required=True)
    for each in XLLAMACPP.parameters:
        parser.add_argument(
            f"--{each.name}", required=True, type=_type_of(each), choices=each.choices or None
        )
    return parser


def _type_of(parameter: Parameter) -> type:
    is_number = isinstance(parameter.default, int) and not isinstance(parameter.default, bool)
    return int if is_number else str


if __name__ == "__main__":
    main(sys.argv[1:])
