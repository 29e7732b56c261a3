"""The evidence of several runs, collected from documents that come in any order of runs.

Law: what is held of all of them has the bound that one has. Beyond it they are to be read in smaller parts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from control_plane.store.verify.collecting import HAND_MADE, HELD_BYTES_MAX, Collected, Unjudged
from control_plane.store.verify.evidence import Document
from control_plane.store.verify.shapes import problem

Add = Callable[[Collected, Document, int], None]


class TooMuchAtOnce(Exception):
    """These runs are too large to be held together; each may be small enough."""


@dataclass(slots=True)
class Together:
    """What was collected of each run so far, and why others cannot be judged. Raises `TooMuchAtOnce`."""

    alone: bool
    runs: dict[str, Collected] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)
    _bytes: int = 0

    def begin(self, collection: str, run: Document, size: int) -> None:
        """Begin with a run."""
        run_id = str(run["_id"])
        if (wrong := problem(collection, run)) is not None:
            self.failed[run_id] = Unjudged("unreadable", f"{collection} {run_id}: {wrong}")
            return
        self.runs[run_id] = Collected(run)
        self._do(run_id, partial(Collected.add, collection=collection, document=run, size=size))

    async def take(self, documents: AsyncGenerator[tuple[Document, int], None], add: Add) -> None:
        """Add each document to its run; the rest is left unread where no run is left to be judged."""
        if not self.runs:
            return
        async with aclosing(documents):
            async for document, size in documents:
                run_id = document.get("runId")
                if isinstance(run_id, str) and run_id in self.runs:
                    self._do(run_id, add, document, size)
                    if not self.runs:
                        return

    def each(self, step: Callable[[Collected], None]) -> None:
        """Do something with each run."""
        for run_id in list(self.runs):
            self._do(run_id, step)

    def _do(self, run_id: str, step: Callable[..., None], *given: object) -> None:
        one = self.runs[run_id]
        before = one.held_bytes
        try:
            step(one, *given)
        except (Unjudged, *HAND_MADE) as error:
            self.failed[run_id] = error
            del self.runs[run_id]
        self._bytes += one.held_bytes - before
        if self._bytes > HELD_BYTES_MAX and not self.alone:
            raise TooMuchAtOnce
