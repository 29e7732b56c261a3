"""What the control plane's part of a kind expects of a run: `estimate` of its module `estimate`.

Law: it is a guess. Where the code of a kind fails, or guesses what is no number, there is none of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from control_plane.model.kind_packages import modules
from control_plane.reads.kinds.errors import made
from control_plane.reads.kinds.loops import KindLoop
from control_plane.store.database import Database
from control_plane.store.reads import RunReads
from events.answers.kinds.estimates import EstimatedPart
from events.runtime.errors import ConfigError

NAME: Final = "estimate"
PARTS_MAX: Final = 200

Estimator = Callable[[RunReads, Any], Awaitable[Sequence[EstimatedPart]]]
Estimators = Mapping[str, Estimator]


def estimators_of_kinds() -> Estimators:
    """Return the function `estimate` of each kind that has one. Raises `ConfigError` for what is none."""
    found = {kind: getattr(module, NAME, None) for kind, module in modules(NAME).items()}
    problems = [
        f"kind {kind!r}: its `{NAME}.{NAME}` is no function; uninstall its package or fix it"
        for kind, each in found.items()
        if not callable(each)
    ]
    if problems:
        raise ConfigError(problems)
    return {kind: each for kind, each in found.items() if each is not None}


async def expected_of(
    kind: str, estimator: Estimator | None, reads: RunReads, spec: Any, loop: KindLoop | None = None
) -> Sequence[EstimatedPart]:
    """Return the parts of a run as its kind expects them; none where it says nothing. Raises `Transient`."""
    if estimator is None:
        return ()

    async def there(db: Database) -> list[EstimatedPart]:
        return _checked(await estimator(RunReads(db), spec))

    async def make() -> list[EstimatedPart]:
        return _checked(await estimator(reads, spec)) if loop is None else await loop.run(there)

    return await made(kind, NAME, make, lambda _: [])


def _checked(parts: Sequence[EstimatedPart]) -> list[EstimatedPart]:
    """Return parts that are what their type says. Raises `ValueError`."""
    found = msgspec.convert(msgspec.to_builtins(parts), list[EstimatedPart])
    if len(found) > PARTS_MAX:
        raise ValueError(f"{len(found)} parts are estimated; at most {PARTS_MAX}")
    return found
