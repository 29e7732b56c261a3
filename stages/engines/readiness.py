"""Asks a server on loopback which models it lists: an alias of one's own there proves that it is one's own.

Law: a health check would accept a stranger at the same port. No proxy is asked, and an answer is bounded.
"""

from __future__ import annotations

import http.client
import json
from typing import Final

from events.models.engine import listed_names
from stages.engines.processes import LOOPBACK

ANSWER_BYTES_MAX: Final = 1 << 20
ASK_S: Final = 5.0


def has_alias(port: int, path: str, alias: str) -> bool:
    """Return whether the server at `port` lists `alias`; one that answers anything else has it not."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ASK_S)
    try:
        connection.request("GET", path)
        body = connection.getresponse().read(ANSWER_BYTES_MAX)
        return alias in listed_names(json.loads(body))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return False
    finally:
        connection.close()
