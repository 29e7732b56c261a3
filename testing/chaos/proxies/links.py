"""The address under which a member of the replica set is known: a TCP relay that can be cut.

Law: a cut concerns what comes to a member, and, unless it is one-sided, what comes from it.
A hole keeps connections and swallows what they carry until it is healed, as a network
does that drops packets; a refusal resets them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from testing.chaos.proxies.network import LOOPBACK, Network, reset

CHUNK_BYTES: Final = 64 * 1024
CLIENT: Final = -1  # the place of whoever is no member

Cut = Literal["hole", "refusal", "one-sided hole", "hole between members"]
CUTS: Final[tuple[Cut, ...]] = ("hole", "refusal", "one-sided hole")


@dataclass(slots=True)
class Partition:
    """Which members are cut off, and how; `changed` is set anew at each change."""

    cuts: dict[int, Cut] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def verdict(self, source: int, target: int) -> Cut | None:
        """Return what stands between `source` and `target`, None where nothing does."""
        if source == target:
            return None
        into, out_of = self.cuts.get(target), self.cuts.get(source)
        if into == "hole between members" and source == CLIENT:
            into = None
        if out_of == "one-sided hole":
            out_of = None
        return into or out_of


Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """One connection through a relay."""

    source: int
    member: int
    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]

    def reset(self) -> None:
        for writer in self.writers:
            reset(writer)


@dataclass(slots=True)
class Links:
    """One relay for each member."""

    network: Network
    pid_of: Callable[[int], int | None]
    targets: dict[int, int] = field(default_factory=dict)
    partition: Partition = field(default_factory=Partition)
    _open: set[Connection] = field(default_factory=set)

    def open(self, member: int, *, address: int, target: int) -> None:
        """Listen on `address` for the member that listens on `target`."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # A task that ends as canceled would be reported by the loop; ours end with the network.
            with suppress(asyncio.CancelledError):
                await self._relay(member, reader, writer)

        self.targets[member] = target
        self.network.listen(address, serve)

    def cut(self, member: int, how: Cut) -> None:
        """Cut a member off."""
        self._change({**self.partition.cuts, member: how})

    def heal(self, member: int | None = None) -> None:
        """Let everything through again, to and from one member or all."""
        left = {} if member is None else {m: cut for m, cut in self.partition.cuts.items() if m != member}
        self._change(left)

    def _change(self, cuts: dict[int, Cut]) -> None:
        async def change() -> None:
            before, self.partition.changed = self.partition.changed, asyncio.Event()
            self.partition.cuts = cuts
            before.set()
            for connection in list(self._open):
                if self.partition.verdict(connection.source, connection.member) == "refusal":
                    connection.reset()

        self.network.call(change())

    async def _relay(self, member: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = self._source(writer)
        try:
            if not await self._passes(source, member):
                return
            from_member, to_member = await asyncio.open_connection(LOOPBACK, self.targets[member])
        except OSError:
            return  # the member is dead: so is its address
        else:
            connection = Connection(source, member, (writer, to_member))
            self._open.add(connection)
            try:
                await self._pump_both(connection, (reader, to_member), (from_member, writer))
            finally:
                self._open.discard(connection)
                connection.reset()
        finally:
            reset(writer)

    async def _pump_both(self, connection: Connection, there: Way, back: Way) -> None:
        pumps = [asyncio.create_task(self._pump(connection, *way)) for way in (there, back)]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry bytes one way until either end closes."""
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if not await self._passes(connection.source, connection.member):
                    return
                writer.write(chunk)
                await writer.drain()

    async def _passes(self, source: int, member: int) -> bool:
        """Wait out a hole; False for a refusal."""
        while (verdict := self.partition.verdict(source, member)) is not None:
            if verdict == "refusal":
                return False
            await self.partition.changed.wait()
        return True

    def _source(self, writer: asyncio.StreamWriter) -> int:
        """Return which member opened this connection: the kernel knows whose socket it is."""
        peer = writer.get_extra_info("peername")
        inode = None if peer is None else socket_inode(peer[1])
        if inode is not None:
            for member in self.targets:
                pid = self.pid_of(member)
                if pid is not None and owns_socket(pid, inode):
                    return member
        return CLIENT


def socket_inode(port: int) -> str | None:
    """Return the inode of the loopback socket whose own port is `port`."""
    wanted = f": 0100007F:{port:04X} "  # after the line's number; thousands of lines are of other ports
    for line in Path("/proc/net/tcp").read_text().splitlines():
        if wanted in line and (inode := line.split()[9]) != "0":
            return inode
    return None


def owns_socket(pid: int, inode: str) -> bool:
    """Say whether a descriptor of the process `pid` is this socket; a mongod has hundreds of them."""
    folder, wanted = f"/proc/{pid}/fd", f"socket:[{inode}]"
    try:
        return any(_leads_to(wanted, f"{folder}/{number}") for number in os.listdir(folder))
    except OSError:  # the process is dead
        return False


def _leads_to(wanted: str, link: str) -> bool:
    try:
        return os.readlink(link) == wanted
    except OSError:  # closed since the folder was read
        return False
