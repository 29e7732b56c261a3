"""Which answers are compressed: for whom, and where a request comes from."""

from __future__ import annotations

import pytest

from control_plane.server.http.compression import ITEMS_MAX, accepts_gzip, may_compress


@pytest.mark.parametrize(
    ("accepted", "is_taken"),
    [
        ("gzip", True),
        ("deflate, GZip;q=0.5, br", True),
        ("*", True),
        ("gzip; q=0.001", True),
        ("*;q=0, gzip", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip ; Q=0.000, *", False),
        ("gzip;q=", False),
        ("*;q=0", False),
        ("notgzip, gzip2", False),
        (f"{'br,' * ITEMS_MAX}gzip", False),
        (f"{';' * 9_000}gzip", False),
    ],
)
def test_an_answer_is_compressed_for_who_says_that_gzip_is_read(accepted: str, *, is_taken: bool) -> None:
    assert accepts_gzip(accepted) is is_taken


@pytest.mark.parametrize(
    ("headers", "may"),
    [
        ({}, True),
        ({"authorization": "Bearer k"}, True),
        ({"sec-fetch-site": "same-origin", "cookie": "a=b"}, True),
        ({"sec-fetch-site": "none", "cookie": "a=b"}, True),
        ({"sec-fetch-site": "cross-site", "cookie": "a=b"}, False),
        ({"sec-fetch-site": "same-site", "cookie": "a=b"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"cookie": "a=b"}, False),
    ],
)
def test_nothing_is_compressed_that_another_site_may_have_asked_for(
    headers: dict[str, str], *, may: bool
) -> None:
    assert may_compress(headers) is may
