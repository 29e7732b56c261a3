"""Pages are made beside the event loop: what a pod said decides how long one takes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from control_plane.server.web.page_renderer import RENDERED_MAX, Site


class Reading:
    async def waiting_for_people(self) -> int:
        return 0

    async def running(self, kinds: Sequence[str]) -> dict[str, int]:
        return dict.fromkeys(kinds, 0)


@dataclass
class Deps:
    reading: Reading


class Slow:
    """Pages that take a while, and note how many are made at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.threads: set[int] = set()
        self._lock = threading.Lock()

    def page(self, name: str, code: int, **values: Any) -> str:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.threads.add(threading.get_ident())
        threading.Event().wait(0.02)
        with self._lock:
            self.now -= 1
        return f"{name} {code} {values['waiting']}"


async def test_no_page_is_made_on_the_event_loop_and_few_at_once() -> None:
    pages: Any = Slow()
    deps: Any = Deps(Reading())
    site = Site(deps, pages)
    made: list[Any] = await asyncio.gather(*(site.show("run.html") for _ in range(3 * RENDERED_MAX)))
    assert {*made} == {"run.html 200 0"}
    assert threading.get_ident() not in pages.threads
    assert 1 < pages.most <= RENDERED_MAX
