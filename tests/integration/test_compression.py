"""Compressed answers over real HTTP: smaller for who reads them, the same bytes for everybody else."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

import httpx
import pytest

from events.catalog import RunLog, RunStarted
from tests.integration.conftest import Fleet, HandDriven

pytestmark = pytest.mark.common_fleet

READS_GZIP = {"accept-encoding": "gzip, deflate, br, zstd"}
READS_NONE = {"accept-encoding": "identity"}


def wire(client: httpx.Client, path: str, **headers: str) -> tuple[httpx.Response, bytes]:
    """Return an answer and its bytes as they came."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with client.stream("GET", path, headers=named) as answer:
        return answer, b"".join(answer.iter_raw())


def steady(page: bytes) -> bytes:
    """Return a page without the position of the live stream, which moves by itself."""
    return re.sub(rb'data-since="[^"]*"', b"", page)


@pytest.fixture
def log(fleet: Fleet, by_hand: Callable[[str, str], HandDriven]) -> str:
    """The address of a page with a long log."""
    run_id = fleet.submit()
    said = [RunStarted(pod="p"), *(RunLog(message=f"line {n}: loss falls") for n in range(300))]
    by_hand("runs", "probe/cpu/any").say(*said)
    return f"/runs/{run_id}/log"


def test_a_page_comes_compressed_where_that_is_read_and_as_it_is_elsewhere(fleet: Fleet, log: str) -> None:
    for path, factor in ((log, 5), ("/openapi.json", 5), ("/static/style.css", 2), ("/runs", 2)):
        small, zipped = wire(fleet.client, path, **READS_GZIP)
        plain, whole = wire(fleet.client, path, **READS_NONE)
        assert (small.headers["content-encoding"], small.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert int(small.headers["content-length"]) == len(zipped)
        assert len(zipped) * factor < len(whole)
        assert steady(gzip.decompress(zipped)) == steady(whole)
        assert "content-encoding" not in plain.headers
        assert int(plain.headers["content-length"]) == len(whole)
        assert plain.headers["vary"] == "Accept-Encoding"
        assert plain.headers["content-type"] == small.headers["content-type"]
        refused, same = wire(fleet.client, path, accept_encoding="gzip;q=0")
        assert "content-encoding" not in refused.headers
        assert steady(same) == steady(whole)


def test_a_head_is_that_of_the_get(fleet: Fleet) -> None:
    for headers in (READS_GZIP, READS_NONE):
        head = fleet.client.head("/openapi.json", headers=headers)
        asked, _ = wire(fleet.client, "/openapi.json", **headers)
        assert head.content == b""
        for name in ("content-encoding", "content-length", "content-type", "vary"):
            assert head.headers.get(name) == asked.headers.get(name)


def test_a_static_file_is_not_sent_again_to_who_has_it_compressed(fleet: Fleet) -> None:
    path = "/static/style.css"
    small, _ = wire(fleet.client, path, **READS_GZIP)
    plain, whole = wire(fleet.client, path, **READS_NONE)
    assert small.headers["etag"] == f"W/{plain.headers['etag']}"  # other bytes of the same file
    for tag, headers in ((small.headers["etag"], READS_GZIP), (plain.headers["etag"], READS_NONE)):
        again, nothing = wire(fleet.client, path, if_none_match=tag, **headers)
        assert (again.status_code, nothing) == (304, b"")
        assert again.headers["vary"] == "Accept-Encoding"
    part, piece = wire(fleet.client, path, range="bytes=5-24", **READS_GZIP)
    assert (part.status_code, piece) == (206, whole[5:25])
    assert "content-encoding" not in part.headers


def test_a_page_that_another_site_led_to_has_its_own_size(fleet: Fleet, log: str) -> None:
    _, whole = wire(fleet.client, log, **READS_NONE)
    for site in ("cross-site", "same-site"):
        led, same = wire(fleet.client, log, sec_fetch_site=site, **READS_GZIP)
        assert "content-encoding" not in led.headers
        assert steady(same) == steady(whole)
    own, _ = wire(fleet.client, log, sec_fetch_site="same-origin", **READS_GZIP)
    assert own.headers["content-encoding"] == "gzip"


def test_a_stream_is_not_held_back_for_more_to_compress(fleet: Fleet) -> None:
    with fleet.client.stream("GET", "/api/stream", headers=READS_GZIP) as stream:
        assert "content-encoding" not in stream.headers
        run_id, told = fleet.submit(), b""
        for piece in stream.iter_raw():  # the only thing that is said: it would wait for a second one
            told += piece
            if run_id.encode() in told:
                break
        assert run_id.encode() in told


def test_an_answer_of_a_few_bytes_stays_as_it_is(fleet: Fleet) -> None:
    answer, body = wire(fleet.client, "/healthz", **READS_GZIP)
    assert (body, "content-encoding" in answer.headers) == (b'{"status":"alive"}', False)
