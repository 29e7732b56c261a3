"""A body above a limit is refused in words, and no client finds its connection reset instead."""

from __future__ import annotations

import http.client
from typing import Any

import pytest

pytestmark = pytest.mark.common_fleet


@pytest.mark.parametrize("path", ["/api/ingest/events", "/api/runs"])
@pytest.mark.parametrize("is_declared", [True, False])
@pytest.mark.parametrize("mib", [2.5, 8])
def test_a_body_above_the_limit_is_answered(fleet: Any, path: str, is_declared: bool, mib: float) -> None:
    size = int(mib * 1024 * 1024)
    pieces = [b"x" * 65_536] * (size // 65_536)
    connection = http.client.HTTPConnection(fleet.url.removeprefix("http://"), timeout=60)
    headers = {"Content-Type": "application/x-ndjson" if "ingest" in path else "application/json"}
    if is_declared:
        headers["Content-Length"] = str(sum(map(len, pieces)))
    connection.request("POST", path, iter(pieces), headers, encode_chunked=not is_declared)
    answer = connection.getresponse()
    text = answer.read()
    assert (answer.status, b"limit" in text) == (413, True), text
    connection.close()
