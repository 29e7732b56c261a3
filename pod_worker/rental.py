"""Ends a rented pod through the API of its provider, so that a worker that left costs nothing any more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock

log = logging.getLogger(__name__)

ASK_S: Final = 20.0
AGAIN_FIRST_S: Final = 2.0
AGAIN_MAX_S: Final = 300.0
GONE: Final = 404  # it has been ended already


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider: where a pod of its is deleted, and by which variables a pod knows its id and its key."""

    name: str
    pod_url: str
    id_name: str
    key_name: str


# As their documentation says: docs.runpod.io, "Delete a Pod"; docs.vast.ai, "destroy instance".
PROVIDERS: Final = (
    Provider("RunPod", "https://rest.runpod.io/v1/pods/{id}", "RUNPOD_POD_ID", "RUNPOD_API_KEY"),
    Provider("Vast", "https://console.vast.ai/api/v0/instances/{id}/", "CONTAINER_ID", "CONTAINER_API_KEY"),
)
NEEDED: Final = " or ".join(f"{each.id_name} with {each.key_name} ({each.name})" for each in PROVIDERS)


@dataclass(frozen=True, slots=True)
class Rental:
    """A rented pod, and the key with which its provider ends it."""

    provider: str
    url: str
    key: str = field(repr=False)


def rental_of(values: Mapping[str, str]) -> Rental | None:
    """Return the rental that the environment of a pod tells of; None where it is not known, or has no key."""
    for each in PROVIDERS:
        pod, key = values.get(each.id_name, ""), values.get(each.key_name, "")
        if pod.isascii() and pod.replace("-", "").isalnum() and key:
            return Rental(each.name, each.pod_url.format(id=pod), key)
    return None


def end(rental: Rental, stop: threading.Event, clock: Clock) -> bool:
    """Ask the provider to delete the pod until it does; False if stopped before."""
    import httpx  # a worker starts without it

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
