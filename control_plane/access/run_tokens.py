"""Run tokens: each proves that its bearer holds, or held, one attempt of a run, and authorises nothing else.

A run keeps the hash of the token of every claim until seven days after the attempt's end, because a pod may
still deliver events. A token that was read is cached for a moment (`concurrency/cache.py`).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from control_plane.access.key_ring import Unauthorized
from control_plane.concurrency.cache import Cache
from control_plane.model.run import AttemptToken
from control_plane.store.queue.runs import Runs
from events.runtime.clock import Clock
from events.text.attempt_id import AttemptId
from events.text.key_text import RUN, RunToken, digest, read_run_token

PREFIX: Final = f"pf_{RUN}_"


@dataclass(slots=True)
class RunTokens:
    """Authenticates run tokens."""

    runs: Runs
    clock: Clock
    _known: Cache[AttemptToken | None] = field(init=False)

    def __post_init__(self) -> None:
        self._known = Cache(self.clock)

    async def read(self, text: str) -> RunToken:
        """Return the content of a valid token. Raises `Unauthorized`, always with one message."""
        token = read_run_token(text)
        kept = None if token is None else await self._known.get(digest(text), partial(self._find, token))
        is_right = token is not None and hmac.compare_digest(digest(token.token), kept.hash if kept else "")
        if token is None or kept is None or not is_right or not kept.is_open(self.clock.now()):
            raise Unauthorized("bad_key", "this key is not valid here")
        return token

    async def _find(self, token: RunToken) -> AttemptToken | None:
        found = await self.runs.find(token.run_id)
        if found is None:  # whoever comes late for a run that was deleted is told so
            return await self.runs.token_of_deleted(AttemptId(token.run_id, token.attempt))
        return found.run.token_of(token.attempt)
