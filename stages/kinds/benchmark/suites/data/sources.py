"""Where a pod may look for the data of suites, and the two ways in which there are none."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.runtime.egress_policy import EgressPolicy

HUB: Final = "https://huggingface.co"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSources:
    """The folders of the operator's own data, the cache, and the hub.

    `hub` is empty where nothing may be fetched; `token` is sent to it alone, for data sets behind a gate.
    `stop` ends a download.
    """

    folders: tuple[Path, ...]
    cache: Path
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    hub: str = HUB
    token: str = field(default="", repr=False)
    stop: threading.Event = field(default_factory=threading.Event)


class NeedsSetup(Exception):
    """A suite cannot run until somebody does what the text says."""


class DataRefused(Exception):
    """The data are there and cannot be used; the text says why."""
