"""The one address of the control planes, as the campaign's people ask it: many a request has no answer."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import httpx

from events.runtime.clock import Clock

ANSWER_S: Final = 8.0
TRIES_MAX: Final = 40
TRY_AGAIN_S: Final = 0.5
BUSY: Final = 429


@dataclass(frozen=True, slots=True)
class Door:
    """Asks, and takes for an answer only what came whole."""

    client: httpx.Client
    clock: Clock

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response | None:
        """Return the answer; None where none came whole."""
        try:
            answer = self.client.request(method, path, json=body, headers=headers, timeout=ANSWER_S)
            if answer.is_success:
                answer.json()
        except (httpx.HTTPError, ValueError):
            return None
        return answer

    def insist(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response | None:
        """Ask until somebody has decided; None where nobody has after many tries."""
        for _ in range(TRIES_MAX):
            answer = self.ask(method, path, body, headers)
            if answer is not None and not answer.is_server_error and answer.status_code != BUSY:
                return answer
            self.clock.wait(threading.Event(), TRY_AGAIN_S)
        return None
