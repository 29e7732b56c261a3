"""Rows of results and the events that recorded them, in memory, as the verifier reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]


@dataclass
class Rows:
    """What is stored of one run; a test alters it, and a rebuild writes to it."""

    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: Sequence[Document] = ()

    async def pages(self, run_id: str) -> AsyncIterator[Sequence[Document]]:
        yield [dict(each) for each in self.stored.values()]

    async def recorded(self, run_id: str) -> AsyncIterator[Sequence[Document]]:
        for each in self.events:
            if each["type"] == "ai.result.recorded":
                yield [each]

    async def rows(self, ids: Sequence[str]) -> Mapping[str, Document]:
        return {each: self.stored[each] for each in ids if each in self.stored}

    async def events_at(
        self, run_id: str, positions: Sequence[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Document]:
        places = {(each["attempt"], each["sequence"]): each for each in self.events}
        return {each: places[each] for each in positions if each in places}
