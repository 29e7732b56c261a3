"""Signatures for the storage's clock, which each of its answers tells."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest

from control_plane.config import read_storage
from control_plane.files.blobs import Blobs, open_blobs
from control_plane.files.signing import Content
from events.runtime.errors import Transient
from events.runtime.measured_clock import MILLISECOND_S, MeasuredClock
from events.testing import EPOCH, ManualClock
from tests.unit.control_plane.test_blobs import NOWHERE

HOUR: Final = timedelta(hours=1)


def moment(signed: str) -> datetime:
    return datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


@dataclass
class Storage:
    """A storage with a clock of its own; it refuses its first requests, and notes their times."""

    now: datetime = EPOCH + HOUR
    refusals: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    signed_for: list[datetime] = field(default_factory=list)


@contextmanager
def asked(storage: Storage) -> Iterator[Blobs]:
    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if "x-amz-date" in self.headers:
                storage.signed_for.append(moment(self.headers["x-amz-date"]))
            self.send_response_only(403 if len(storage.signed_for) <= storage.refusals else 200)
            self.send_header("Date", format_datetime(storage.now, usegmt=True))
            for name, value in storage.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = {"MINIO_ENDPOINT": f"127.0.0.1:{server.server_port}"}
        yield open_blobs(read_storage({**NOWHERE, **endpoint}), MeasuredClock(ManualClock()))
        server.shutdown()


def date_in(url: str) -> datetime:
    (told,) = parse_qs(urlsplit(url).query)["X-Amz-Date"]
    return moment(told)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_addresses_are_signed_for_the_clock_of_the_storage(ahead: timedelta) -> None:
    machine = ManualClock()
    blobs = open_blobs(read_storage(NOWHERE), MeasuredClock(machine))
    now = machine.now() + ahead
    blobs.clock.note(now, asked_s=machine.monotonic_s(), unit_s=MILLISECOND_S)
    signed = blobs.puts.sign("runs/x", Content(7))
    for url in (asyncio.run(blobs.get_url("runs/x", name="x")), signed.url):
        assert abs(date_in(url) - now) <= timedelta(seconds=1)


def test_a_refused_request_that_was_signed_for_another_time_is_signed_anew_and_sent_once_more() -> None:
    storage = Storage(refusals=1)
    with asked(storage) as blobs:
        asyncio.run(blobs.measure())
        storage.now -= 2 * HOUR  # its clock is set
        asyncio.run(blobs.ping())
        assert [abs(each - storage.now) < timedelta(seconds=2) for each in storage.signed_for] == [
            False,
            True,
        ]


def test_a_request_that_is_refused_at_the_right_time_is_sent_once() -> None:
    storage = Storage(refusals=9)
    with asked(storage) as blobs:
        asyncio.run(blobs.measure())
        with pytest.raises(Transient):
            asyncio.run(blobs.ping())
    assert len(storage.signed_for) == 1


def test_nothing_is_signed_before_the_time_of_the_storage_is_known() -> None:
    storage = Storage()
    with asked(storage) as blobs:
        asyncio.run(blobs.ping())
    assert [abs(each - storage.now) < timedelta(seconds=2) for each in storage.signed_for] == [True]


def test_an_answer_out_of_a_cache_tells_no_time() -> None:
    storage = Storage(headers={"Age": "3600"})
    with asked(storage) as blobs:
        asyncio.run(blobs.measure())
        assert blobs.clock.known is None
        storage.headers.clear()
        asyncio.run(blobs.measure())
        assert blobs.clock.machine_ahead_s == pytest.approx(-3600.0, abs=1)
