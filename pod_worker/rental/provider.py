"""Which rented pod this is, and where its provider deletes it, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


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
