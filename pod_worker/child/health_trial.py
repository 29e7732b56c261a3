"""The trial of a GPU or of the sandbox, in a process like that of a pipeline.

A worker runs it as `python -m pod_worker.child.health_trial`. It prints one line of JSON: whether it
works, and what was found.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from events.delivery.pipe import Tried
from events.runtime.errors import PipelineError
from pod_worker.child.confine import enter
from pod_worker.child.tools import tools
from pod_worker.isolation.confinement import Confinement

MESSAGE_MAX: Final = 1000
NUMBERS: Final = 4096
NO_KERNEL: Final = "no kernel image"
UNSUPPORTED: Final = "CUDA_UNSUPPORTED_ARCH"
ADVICE: Final = "install a build of PyTorch for this architecture; runs that need no GPU go on on the CPU"
BUILT_FOR: Final = re.compile(r"(sm|compute)_(\d+)(\d)")


def main(argv: Sequence[str]) -> int:
    """Print what was found; return 0 if it works."""
    parser = argparse.ArgumentParser(prog="python -m pod_worker.child.health_trial", description=__doc__)
    parser.add_argument("what", choices=("gpu", "sandbox"))
    parser.add_argument("--confinement", type=Confinement.read)
    parser.add_argument("--space", type=int, help="the number of what it is confined to")
    arguments = parser.parse_args(argv)
    try:
        if arguments.confinement is not None:
            enter(arguments.confinement, arguments.confinement.space_of(arguments.space))
        tried = _try_gpu() if arguments.what == "gpu" else _try_sandbox()
    except Exception as error:  # noqa: BLE001 - a driver or a kernel may raise anything
        tried = Tried(ok=False, message=f"{type(error).__name__}: {error}"[:MESSAGE_MAX])
    sys.stdout.buffer.write(msgspec.json.encode(tried) + b"\n")
    return 0 if tried.ok else 1


def _try_gpu() -> Tried:
    try:
        import torch  # noqa: PLC0415 - the sandbox needs none, and there may be none
    except ImportError:
        return Tried(ok=True, message="not tested: PyTorch is not installed", code="NO_TORCH")
    return try_cuda(torch)


def try_cuda(torch: Any) -> Tried:
    """Have every visible device compute a sum; `torch` is the module, or a stand-in."""
    if not torch.cuda.is_available():
        return Tried(
            ok=False, message="PyTorch does not see the GPU: its CUDA build and the driver do not fit"
        )
    sums = []
    for number in range(torch.cuda.device_count()):
        try:
            sums.append(torch.ones(NUMBERS, device=f"cuda:{number}").sum().item())
        except RuntimeError as error:
            return _failure(torch, number, str(error))
    wrong = [number for number, found in enumerate(sums) if found != NUMBERS]
    if wrong:
        return Tried(ok=False, message=f"the GPU {wrong[0]} adds {NUMBERS} ones to {sums[wrong[0]]}")
    return Tried(ok=True, message=f"{len(sums)} devices compute")


def _failure(torch: Any, number: int, words: str) -> Tried:
    """Return why a device did not compute: no code for its architecture, or what it says itself."""
    major, minor = torch.cuda.get_device_capability(number)
    built_for = [str(each) for each in torch.cuda.get_arch_list()]
    if NO_KERNEL not in words and (not built_for or _has_code(built_for, major, minor)):
        return Tried(ok=False, message=words[:MESSAGE_MAX])
    has = ", ".join(built_for) or "none"
    why = f"this PyTorch has no code for sm_{major}{minor} of the GPU {number} (it has {has[:200]}): {ADVICE}"
    return Tried(ok=False, message=why, code=UNSUPPORTED)


def _has_code(built_for: Sequence[str], major: int, minor: int) -> bool:
    """Say whether a build runs on an architecture: code of its generation, or text to compile for it."""
    for each in built_for:
        match BUILT_FOR.fullmatch(each):
            case None:
                continue
            case found if found[1] == "sm" and int(found[2]) == major and int(found[3]) <= minor:
                return True
            case found if found[1] != "sm" and (int(found[2]), int(found[3])) <= (major, minor):
                return True
    return False


def _try_sandbox() -> Tried:
    """Have the sandbox find an isolation that works."""
    sandbox = tools(os.environ).sandbox
    try:
        found = sandbox.isolation()
    except PipelineError as error:
        return Tried(ok=False, message=error.message[:MESSAGE_MAX], code=error.code)
    return Tried(ok=True, message=f"programs run in {found.name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
