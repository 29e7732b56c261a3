"""Keeps what depends on an item alone for the other times that it is asked, within bounds.

Law: nothing that a solution had a part in is kept, and nothing outlives the attempt: a folder that runs share
would be one that a solution may write to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

ITEMS_MAX: Final = 256  # HumanEval has 164
BYTES_MAX: Final = 64 * 1024  # of one item, as JSON; what is larger is found again


@dataclass(frozen=True, slots=True)
class Kept:
    """What was found by the text that it follows from; for any number of threads."""

    _found: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of(self, key: bytes, find: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return what `find` has found for this key; what it raises is not kept."""
        with self._lock:
            kept = self._found.get(key)
        if kept is not None:
            found: Mapping[str, Any] = msgspec.json.decode(kept)
            return found
        found = find()
        text = msgspec.json.encode(found)
        if len(text) <= BYTES_MAX:
            with self._lock:
                self._found[key] = text
                while len(self._found) > ITEMS_MAX:
                    self._found.popitem(last=False)
        return found
