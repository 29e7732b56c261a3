"""A link holds back, refuses or lets through, to and from the member that is cut off."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from events.runtime.clock import SystemIds
from podfleet.embedded.ports import choose
from testing.chaos.proxies.links import CLIENT, Links, Partition
from testing.chaos.proxies.network import LOOPBACK, Network

QUIET_S = 0.2  # after which nothing is expected any more
ANSWER_S = 60.0


@dataclass
class Echo:
    """A member that says what it hears, and the link before it."""

    links: Links
    address: int

    def connect(self) -> socket.socket:
        return socket.create_connection((LOOPBACK, self.address), timeout=ANSWER_S)


@pytest.fixture
def echo() -> Iterator[Echo]:
    ids = SystemIds()
    target, address = choose(ids), choose(ids)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk)
        writer.close()

    with Network() as network:
        network.listen(target, answer)
        links = Links(network, lambda _: None)
        links.open(0, address=address, target=target)
        yield Echo(links, address)


def test_a_link_carries_both_ways(echo: Echo) -> None:
    with echo.connect() as connection:
        connection.sendall(b"hello")
        assert connection.recv(10) == b"hello"


def test_a_hole_swallows_until_it_is_healed(echo: Echo) -> None:
    with echo.connect() as connection:
        connection.sendall(b"before")
        assert connection.recv(10) == b"before"
        echo.links.cut(0, "hole")
        connection.sendall(b"after")
        connection.settimeout(QUIET_S)
        with pytest.raises(TimeoutError):
            connection.recv(10)
        echo.links.heal(0)
        connection.settimeout(ANSWER_S)
        assert connection.recv(10) == b"after"


def answer_of(echo: Echo) -> bytes:
    """Return what a new connection hears, which says nothing."""
    with echo.connect() as connection:
        return connection.recv(10)


def test_a_refusal_resets_what_is_open_and_what_comes(echo: Echo) -> None:
    with echo.connect() as connection:
        connection.sendall(b"x")
        assert connection.recv(10) == b"x"
        echo.links.cut(0, "refusal")
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
    with pytest.raises(ConnectionResetError):  # connecting, or afterwards
        answer_of(echo)


def test_a_cut_stands_between_the_member_and_everybody_else() -> None:
    partition = Partition({1: "hole"})
    assert partition.verdict(CLIENT, 1) == partition.verdict(0, 1) == partition.verdict(1, 0) == "hole"
    assert partition.verdict(1, 1) is partition.verdict(0, 2) is partition.verdict(CLIENT, 0) is None


def test_a_one_sided_hole_lets_the_member_speak() -> None:
    partition = Partition({1: "one-sided hole"})
    assert partition.verdict(0, 1) == "one-sided hole"
    assert partition.verdict(1, 0) is None


def test_a_hole_between_members_lets_clients_reach_the_one_that_is_deserted() -> None:
    partition = Partition({1: "hole between members"})
    assert partition.verdict(CLIENT, 1) is None
    assert partition.verdict(0, 1) == partition.verdict(1, 2) == "hole between members"


def test_the_kernel_tells_whose_socket_it_is(until: Callable[..., None]) -> None:
    ids, own = SystemIds(), os.getpid()
    target, address = choose(ids), choose(ids)
    reached: list[bool] = []

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(True)
        writer.close()

    with Network() as network:
        network.listen(target, note)
        links = Links(network, lambda member: own if member == 0 else None)
        links.open(0, address=address, target=target)
        links.cut(0, "refusal")  # a member reaches itself, whatever cuts it off from others
        with socket.socket() as caller:
            caller.settimeout(ANSWER_S)
            with suppress(ConnectionResetError):  # the member may have hung up before the caller looks
                caller.connect((LOOPBACK, address))
            until(lambda: reached)


@pytest.mark.parametrize("rounds", range(5))  # of the loop, between being accepted and being served
def test_a_connection_that_was_just_accepted_is_closed_with_the_network(rounds: int) -> None:
    address = choose(SystemIds())

    async def serve(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def connect(caller: socket.socket) -> None:
        await asyncio.get_running_loop().sock_connect(caller, (LOOPBACK, address))
        for _ in range(rounds):
            await asyncio.sleep(0)
        await network.end()

    with socket.socket() as caller:
        caller.setblocking(False)
        with Network() as network:
            network.listen(address, serve)
            network.call(connect(caller))
        caller.settimeout(ANSWER_S)
        with suppress(ConnectionResetError):
            assert caller.recv(1) == b""


def test_a_connection_that_is_accepted_while_the_network_ends_is_closed_with_it() -> None:
    address = choose(SystemIds())
    is_busy, is_connected = threading.Event(), threading.Event()

    async def serve(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    def block() -> None:
        is_busy.set()
        is_connected.wait(ANSWER_S)

    with socket.socket() as caller:
        with Network() as network:
            network.listen(address, serve)
            network.loop.call_soon_threadsafe(block)
            assert is_busy.wait(ANSWER_S)
            caller.connect((LOOPBACK, address))
            threading.Timer(0.1, is_connected.set).start()  # behind the call that ends the network
        gc.collect()  # what is open fails the test here
