"""A rented pod is ended by its provider once its worker has left for good and has delivered everything."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from events.runtime.clock import SystemClock
from events.runtime.errors import ConfigError
from pod_worker.__main__ import leave
from pod_worker.config import Settings, Wishes, read_settings
from pod_worker.rental import end as rental_end
from pod_worker.rental.end import end
from pod_worker.rental.provider import Rental, rental_of

LIMIT_S = 10.0
RUNPOD = {"RUNPOD_POD_ID": "abc123", "RUNPOD_API_KEY": "a-key"}
VAST = {"CONTAINER_ID": "4711", "CONTAINER_API_KEY": "a-key"}


@contextmanager
def provider(*statuses: int) -> Iterator[tuple[Rental, list[str]]]:
    """A provider on loopback that answers these statuses, the last of them for ever."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_DELETE(self) -> None:
            asked.append(f"{self.path} {self.headers['authorization']}")
            self.send_response(statuses[min(len(asked), len(statuses)) - 1])
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Rental("RunPod", f"http://127.0.0.1:{server.server_port}/v1/pods/abc123", "a-key"), asked
    finally:
        server.shutdown()
        server.server_close()


def read(**values: str) -> Settings:
    return read_settings({"PODFLEET_API_KEY": "k", **values}, Wishes(), dotenv=Path("none"))


@pytest.mark.parametrize(
    ("values", "url"),
    [
        (RUNPOD, "https://rest.runpod.io/v1/pods/abc123"),
        (VAST, "https://console.vast.ai/api/v0/instances/4711/"),
        ({**RUNPOD, "RUNPOD_API_KEY": ""}, None),
        ({**RUNPOD, "RUNPOD_POD_ID": "../keys"}, None),
        ({"CONTAINER_ID": "4711", "RUNPOD_API_KEY": "a-key"}, None),
        ({}, None),
    ],
)
def test_a_rental_is_known_by_its_id_and_its_key(values: dict[str, str], url: str | None) -> None:
    found = rental_of(values)
    assert (found and found.url) == url
    assert found is None or "a-key" not in repr(found)


def test_it_is_ended_only_where_that_is_wished() -> None:
    assert read(**RUNPOD).rental is None
    assert read(PODFLEET_ON_LEAVE="end", **RUNPOD).rental is not None
    assert "a-key" in read(PODFLEET_ON_LEAVE="end", **RUNPOD).secrets
    with pytest.raises(ConfigError, match="RUNPOD_POD_ID with RUNPOD_API_KEY"):
        read(PODFLEET_ON_LEAVE="end", RUNPOD_POD_ID="abc123")


@pytest.mark.parametrize("statuses", [(200,), (204,), (404,), (500, 401, 204)])
def test_the_provider_is_asked_until_it_agrees(
    statuses: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rental_end, "AGAIN_FIRST_S", 0.01)
    stop = threading.Event()
    too_late = threading.Timer(LIMIT_S, stop.set)  # who asks for ever is stopped, and has failed
    with provider(*statuses) as (rented, asked):
        too_late.start()
        assert end(rented, stop, SystemClock())
    too_late.cancel()
    assert asked == ["/v1/pods/abc123 Bearer a-key"] * len(statuses)


def test_a_signal_ends_the_asking() -> None:
    stop = threading.Event()
    with provider(500) as (rented, asked):
        asking = threading.Thread(target=end, args=(rented, stop, SystemClock()), daemon=True)
        asking.start()
        while not asked:
            assert asking.is_alive()
            threading.Event().wait(0.01)
        stop.set()
        asking.join(LIMIT_S)
        assert not asking.is_alive()


@pytest.mark.parametrize(("undelivered", "count"), [(0, 1), (3, 0)])
def test_what_was_not_delivered_dies_with_no_pod(undelivered: int, count: int) -> None:
    stop = threading.Event()
    with provider(204) as (rented, asked):
        settings = replace(read(PODFLEET_ON_LEAVE="end", **RUNPOD), rental=rented)
        leaving = threading.Thread(target=leave, args=(settings, undelivered, stop), daemon=True)
        leaving.start()
        if count:
            while not asked:
                assert leaving.is_alive()
                threading.Event().wait(0.01)
            assert leaving.is_alive(), "it sleeps until the provider ends it"
        stop.set() if count else None
        leaving.join(LIMIT_S)
        assert not leaving.is_alive()
        assert len(asked) == count
