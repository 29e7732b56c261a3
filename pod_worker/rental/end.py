"""Ends a rented pod through the API of its provider, so that a worker that left costs nothing any more."""

from __future__ import annotations

import logging
import threading
from typing import Final

import httpx

from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock
from pod_worker.rental.provider import Rental

log = logging.getLogger(__name__)

ASK_S: Final = 20.0
AGAIN_FIRST_S: Final = 2.0
AGAIN_MAX_S: Final = 300.0
GONE: Final = 404  # it has been deleted already


def end(rental: Rental, stop: threading.Event, clock: Clock) -> bool:
    """Ask the provider to delete the pod until it does; False if stopped before."""
    failures = 0
    while not stop.is_set():
        try:
            answer = httpx.delete(
                rental.url, headers={"Authorization": f"Bearer {rental.key}"}, timeout=ASK_S
            )
            if answer.is_success or answer.status_code == GONE:
                log.info("pod.ended", extra={"by": rental.provider})
                return True
            why = f"it answers {answer.status_code}"
        except httpx.HTTPError as error:
            why = f"{type(error).__name__}: {error}"
        failures += 1
        log.warning("pod.not_ended", extra={"by": rental.provider, "why": why})
        clock.wait(stop, back_off_s(failures, first_s=AGAIN_FIRST_S, max_s=AGAIN_MAX_S))
    return False
