"""Orders to reset a service as a pod takes them, and what becomes of one; pure.

Law: an order is an id and a name. Whatever else the control plane sends is never looked at, and an odd
order is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from events.answers.pods import ResetOrder
from events.text.service_name import SERVICE_NAME

ID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
ORDERS_MAX: Final = 8  # of one answer


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an order; `code` says why it failed."""

    id: str
    ok: bool
    code: str | None
    message: str
    at: datetime


def reset_orders(said: object) -> tuple[ResetOrder, ...]:
    """Return the orders in an answer, without what is none."""
    found = []
    for each in said[:ORDERS_MAX] if isinstance(said, Sequence) and not isinstance(said, str) else ():
        match each:
            case {"id": str(name), "service": str(service)} if isinstance(each, Mapping):
                if ID.fullmatch(name) and re.fullmatch(SERVICE_NAME, service):
                    found.append(ResetOrder(id=name, service=service, force=each.get("force") is True))
    return tuple(found)
