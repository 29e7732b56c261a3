"""Retries a request to a model until it is answered or a retry is useless."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from events.runtime.clock import Clock, Ids
from events.runtime.errors import Canceled
from stages.models.model import REQUESTS_MAX, Answer, ModelError, QuestionCanceled, Trouble, Usage
from stages.models.retrying import REQUEST_MAX_S, TOTAL_MAX_S, GiveUp, decide

MENDS_MAX: Final = 4  # of one question

Send = Callable[[float], Answer]


class TryFailed(Exception):
    """One request came to nothing; `usage` where it was or may have been billed.

    `is_mended` where the next request will not have what was wrong with this one.
    """

    def __init__(
        self,
        trouble: Trouble,
        message: str,
        *,
        usage: Usage | None = None,
        retry_after_s: float | None = None,
        is_mended: bool = False,
    ) -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble
        self.message = message
        self.usage = usage
        self.retry_after_s = retry_after_s
        self.is_mended = is_mended


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrier:
    """Sends requests by the rules of `stages.models.retrying`, from any thread; `stop` ends every wait."""

    clock: Clock
    ids: Ids
    stop: threading.Event = field(default_factory=threading.Event)
    request_max_s: float = REQUEST_MAX_S
    total_max_s: float = TOTAL_MAX_S

    def ask(self, send: Send, *, requests_max: int = REQUESTS_MAX) -> Answer:
        """Return the first answer; `send` takes the seconds that it may last.

        At most `requests_max` requests that may have been billed are sent. Raises `ModelError`, and
        `QuestionCanceled` if the pipeline was asked to stop.
        """
        asking = _Asking(self, send, self.clock.monotonic_s(), requests_max)
        try:
            return asking.answer()
        except Canceled as error:
            raise QuestionCanceled(str(error), asking.usages()) from error


@dataclass(slots=True)
class _Asking:
    """One question on its way: what was billed so far, and since when a request is open."""

    retrier: Retrier
    send: Send
    begun_s: float
    requests_max: int
    tries: int = 0
    mends: int = 0
    billed: list[Usage] = field(default_factory=list)
    open_since_s: float | None = None

    def answer(self) -> Answer:
        while True:
            self.tries += 1
            try:
                return replace(self._send(), billed_before=tuple(self.billed))
            except TryFailed as failure:
                if failure.usage is not None:
                    self.billed.append(failure.usage)
                self._pause(failure)

    def usages(self) -> tuple[Usage, ...]:
        """Return what was billed, with the open request that may yet be."""
        if self.open_since_s is None:
            return tuple(self.billed)
        seconds = self.retrier.clock.monotonic_s() - self.open_since_s
        return (*self.billed, Usage(prompt_tokens=None, completion_tokens=None, seconds=seconds))

    def _send(self) -> Answer:
        now_s = self.retrier.clock.monotonic_s()
        left_s = self.retrier.total_max_s - (now_s - self.begun_s)
        self._heed_stop(self.retrier.stop.is_set())
        self.open_since_s = now_s
        try:
            return self.send(min(self.retrier.request_max_s, left_s))
        except TryFailed:
            self.open_since_s = None
            raise

    def _pause(self, failure: TryFailed) -> None:
        """Wait until the next try. Raises `ModelError` where there is none."""
        if len(self.billed) >= self.requests_max:
            message = f"{failure.message} (no further request is paid for)"
            raise ModelError(failure.trouble, message, tuple(self.billed)) from failure
        if failure.is_mended and self.mends < MENDS_MAX:
            self.mends += 1
            self.tries -= 1
            return
        decision = decide(
            failure.trouble,
            self.tries,
            retry_after_s=failure.retry_after_s,
            elapsed_s=self.retrier.clock.monotonic_s() - self.begun_s,
            jitter=self.retrier.ids.fraction(),
            total_max_s=self.retrier.total_max_s,
        )
        if isinstance(decision, GiveUp):
            message = f"{failure.message} ({decision.reason})"
            raise ModelError(failure.trouble, message, tuple(self.billed)) from failure
        self._heed_stop(self.retrier.clock.wait(self.retrier.stop, decision.seconds))

    def _heed_stop(self, is_stopped: bool) -> None:
        if is_stopped:
            raise Canceled("the pipeline was asked to stop")
