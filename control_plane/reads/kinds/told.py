"""What the control plane's part of a kind tells each attempt at its start: `told` of its module `told`.

Law: it is a hint to the pipeline. A kind whose code fails, or says too much, tells nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from control_plane.model.kind_packages import modules
from control_plane.reads.kinds.errors import made
from control_plane.reads.kinds.loops import KindLoop
from control_plane.store.database import Database
from control_plane.store.reads import RunReads
from events.runtime.errors import ConfigError

TOLD: Final = "told"
TOLD_BYTES_MAX: Final = 256 * 1024

Tell = Callable[[RunReads, str], Awaitable[Mapping[str, Any]]]
Tellers = Mapping[str, Tell]


def tellers_of_kinds() -> Tellers:
    """Return the function `told` of each kind that has one. Raises `ConfigError` for what is none."""
    found = {kind: getattr(module, TOLD, None) for kind, module in modules(TOLD).items()}
    problems = [
        f"kind {kind!r}: its `{TOLD}.{TOLD}` is no function; uninstall its package or fix it"
        for kind, each in found.items()
        if not callable(each)
    ]
    if problems:
        raise ConfigError(problems)
    return {kind: each for kind, each in found.items() if each is not None}


async def told_to(
    kind: str, tell: Tell | None, reads: RunReads, run_id: str, loop: KindLoop | None = None
) -> dict[str, Any]:
    """Return what an attempt of a run is told. Raises `Transient`."""
    if tell is None:
        return {}

    async def tell_there(db: Database) -> dict[str, Any]:
        return _checked(await tell(RunReads(db), run_id))

    async def say() -> dict[str, Any]:
        return _checked(await tell(reads, run_id)) if loop is None else await loop.run(tell_there)

    return await made(kind, TOLD, say, lambda _: {})


def _checked(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return it as JSON has it. Raises `ValueError` where it is too much."""
    encoded = msgspec.json.encode(told)
    if len(encoded) > TOLD_BYTES_MAX:
        raise ValueError(f"{len(encoded)} bytes are told; at most {TOLD_BYTES_MAX}")
    return msgspec.json.decode(encoded, type=dict[str, Any])
