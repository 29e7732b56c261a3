"""Which kinds can run here, and their pipelines.

Law: importing this module imports no pipeline. Only the pod's child calls `load`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from typing import Any

from events.kinds import KINDS
from events.kinds.kind import Kind
from stages.pipeline import Pipeline


def installed() -> tuple[str, ...]:
    """Return the kinds whose needs are installed here, what needs least first; imports none of them."""
    kinds = sorted(KINDS.values(), key=lambda kind: len(kind.needs))
    return tuple(kind.name for kind in kinds if not missing(kind))


def missing(kind: Kind) -> tuple[str, ...]:
    """Return the modules that `kind` needs and that are not installed."""
    return tuple(name for name in kind.needs if importlib.util.find_spec(name) is None)


def load(kinds: Iterable[str]) -> dict[str, Pipeline]:
    """Import the pipelines of `kinds`, with everything heavy that they need.

    Raises `KeyError` for a kind that is unknown here, `ImportError` for one that cannot be imported.
    """
    return {kind: importlib.import_module(KINDS[kind].pipeline).run for kind in kinds}


def imported(name: str) -> Any:
    """Return a module that a pipeline has imported, None where none has; one on its way is waited for."""
    return importlib.import_module(name) if name in sys.modules else None
