"""Looks at the provider of the pod's language model, by a call that costs nothing: its listing of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx

from events.models.providers import Provider
from pod_worker.health.bounded_head import Head, ask
from pod_worker.health.check import Finding

REFUSED: Final = frozenset({401, 403})
WITHOUT_LISTING: Final = frozenset({404, 405, 501})
BUSY: Final = 429


@dataclass(frozen=True, slots=True)
class ModelLook:
    """Looks at the provider that the settings name."""

    provider: Provider
    environ: Mapping[str, str]

    @property
    def host(self) -> str:
        """The provider's host, with its port where the address names one."""
        return urlsplit(self.provider.address(self.environ)).netloc.rpartition("@")[2].lower()

    def __call__(self) -> Finding:
        """Ask for the listing."""
        url = self.provider.address(self.environ).rstrip("/") + self.provider.listing
        try:
            head = ask("GET", url, self.provider.headers(self.environ), uses_proxy=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            why = type(error).__name__
            return Finding(False, "MODEL_UNREACHABLE", f"{self.host} does not answer ({why})")
        return judge(head, self.host, f"{self.provider.prefix}_API_KEY")


def judge(head: Head, host: str, setting: str) -> Finding:
    """Return what the answer of a listing says of the provider and of the key; `setting` names the key's."""
    answers = f"{host} answers {head.status}"
    if head.status in REFUSED:
        return Finding(False, "MODEL_UNAUTHORISED", f"its model key is refused: {answers}; check {setting}")
    if head.status >= 500 and head.status not in WITHOUT_LISTING:
        return Finding(False, "MODEL_UNREACHABLE", f"its model provider is away: {answers}")
    if head.status < 300 and head.content_type.startswith("text/html"):
        page = f"{answers} with a page in the place of a listing"
        return Finding(False, "MODEL_UNREACHABLE", f"its model provider is away: {page}")
    if head.status == BUSY:  # it knows the key; whether it is still too busy, the next attempt tells
        return Finding(True, message=f"{answers}: too many requests")
    return Finding(True, message=answers)
