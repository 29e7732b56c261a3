"""The balancer does to a request what it says, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import httpx
import pytest

from events.runtime.clock import SystemIds
from podfleet.embedded.ports import choose
from testing.chaos.proxies.balancer import MISHAPS, Balancer, Mishap, read_request
from testing.chaos.proxies.network import LOOPBACK, Network

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


@dataclass
class Replica:
    """A server that answers everything, and remembers what it was asked."""

    port: int
    asked: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await read_request(reader))
        writer.write(ANSWER)
        await writer.drain()
        writer.close()


@dataclass
class Place:
    """A balancer before one replica, with the mishap that the next request meets."""

    balancer: Balancer
    replica: Replica
    url: str

    def meets(self, *mishaps: Mishap) -> None:
        self.balancer.rate = 1.0
        self.balancer._deck = list(reversed(mishaps))

    def post(self) -> httpx.Response:
        return httpx.post(self.url, content=b"body", trust_env=False, timeout=60.0)


@pytest.fixture
def place() -> Iterator[Place]:
    ids = SystemIds()
    with Network() as network:
        replica = Replica(choose(ids))
        network.listen(replica.port, replica.serve)
        balancer = Balancer(network, Random(1), [replica.port])
        port = choose(ids)
        balancer.open(port)
        yield Place(balancer, replica, f"http://{LOOPBACK}:{port}/path")


def test_without_a_mishap_a_request_is_answered(place: Place) -> None:
    assert place.post().text == "hello"
    assert place.replica.asked[0].startswith(b"POST /path HTTP/1.1")
    assert place.replica.asked[0].endswith(b"\r\n\r\nbody")


@pytest.mark.parametrize("mishap", ["500", "503", "429"])
def test_a_refused_request_reaches_nobody(place: Place, mishap: Mishap) -> None:
    place.meets(mishap)
    assert place.post().status_code == int(mishap)
    assert place.replica.asked == []


def test_a_dropped_request_reaches_nobody(place: Place) -> None:
    place.meets("dropped")
    with pytest.raises(httpx.RemoteProtocolError):
        place.post()
    assert place.replica.asked == []


@pytest.mark.parametrize("mishap", ["eaten", "reset"])
def test_an_answer_that_is_lost_was_given(place: Place, mishap: Mishap) -> None:
    place.meets(mishap)
    with pytest.raises(httpx.TransportError):
        place.post()
    assert len(place.replica.asked) == 1


def test_a_cut_answer_is_not_whole(place: Place) -> None:
    place.meets(*["cut"] * 20)
    outcomes = set()
    for _ in range(20):
        try:
            outcomes.add(place.post().text)
        except httpx.TransportError:
            outcomes.add("cut")
    assert "cut" in outcomes
    assert len(place.replica.asked) == 20


def test_a_duplicated_request_is_processed_twice_and_answered_once(place: Place) -> None:
    place.meets("duplicated")
    assert place.post().text == "hello"
    assert len(place.replica.asked) == 2


def test_every_mishap_comes_once_in_so_many_requests(place: Place) -> None:
    place.balancer.rate = 1.0
    for _ in MISHAPS:
        try:
            place.post()
        except httpx.TransportError:
            continue  # what it meets is its own business
    assert dict(place.balancer.mishaps) == dict.fromkeys(MISHAPS, 1)


def test_nobody_there_is_a_refusal(place: Place) -> None:
    place.balancer.replicas = [choose(SystemIds())]
    assert place.post().status_code == 503
