"""What of a pod waits to be delivered, and how much room it has: for its reports."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from events.codec import moment
from events.delivery.outbox import Outbox
from events.runtime.clock import Clock

CODES_MAX: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """Events that wait and the age of the oldest, free bytes of the disk, uploads that failed by code."""

    waiting: int
    oldest_s: float
    disk_free_bytes: int | None
    upload_failures: Mapping[str, int]


def delivery_report(
    outbox: Outbox, data: Path, failures: Counter[str], clock: Clock
) -> Callable[[], DeliveryReport]:
    """Return what reads the delivery of a pod."""
    return partial(_read, outbox, data, failures, clock)


def _read(outbox: Outbox, data: Path, failures: Counter[str], clock: Clock) -> DeliveryReport:
    said = outbox.oldest_at()
    oldest_at = None if said is None else moment(said)
    try:
        free = shutil.disk_usage(data).free
    except OSError:  # a disk that is gone has no number; what waits is told all the same
        free = None
    return DeliveryReport(
        waiting=outbox.pending(),
        oldest_s=0.0 if oldest_at is None else max(0.0, (clock.now() - oldest_at).total_seconds()),
        disk_free_bytes=free,
        upload_failures=dict([*failures.copy().items()][:CODES_MAX]),
    )
