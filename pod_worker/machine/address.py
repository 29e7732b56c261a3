"""Where other pods reach this one."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from dataclasses import dataclass
from typing import Final

from events.runtime.errors import ConfigError

SETTING: Final = "PODFLEET_ADDRESS"
# Of the networks for documentation: nothing is sent there, the machine only says by which way it would be.
ELSEWHERE: Final = ("192.0.2.1", 9)
OWN: Final = "127.0.0.1"
PORTS_MAX: Final = 1_000
_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.(?!-)[A-Za-z0-9-]{1,63})*\.?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A host, None for the one that the machine says, and ports that lead to this machine; none: all do."""

    host: str | None = None
    ports: range = range(0)

    @classmethod
    def read(cls, setting: str | None) -> Address:
        """Read HOST, or HOST:FIRST-LAST. Raises `ConfigError`."""
        if not setting:
            return cls()
        host, _, ports = setting.rpartition(":") if _is_ported(setting) else (setting, "", "")
        host = host.removeprefix("[").removesuffix("]")
        first, _, last = ports.partition("-")
        found = range(int(first), int(last or first) + 1) if ports else range(0)
        if not _is_host(host) or (ports and not (found and found[0] > 0 and found[-1] < 1 << 16)):
            shown = f"{SETTING} is {setting[:200]!r}"
            raise ConfigError(
                [f"{shown}; write HOST, a name or an IP address, or HOST:FIRST-LAST with ports of this pod"]
            )
        return cls(host, found[:PORTS_MAX])

    def free(self) -> str:
        """Return a host and a port that nobody has at the moment: HOST:PORT; where all are taken, any."""
        host = self.host or outgoing_host()
        # Workers of one machine begin at different ports: what one found is free until its program has it.
        begin = os.getpid() % len(self.ports) if self.ports else 0
        for port in [*self.ports[begin:], *self.ports[:begin]] or [0]:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
                try:
                    listener.bind(("", port))
                except OSError:
                    continue
                return f"{host}:{listener.getsockname()[1]}"
        return f"{host}:{self.ports[0]}"  # the program says by itself that it is taken


def outgoing_host() -> str:
    """Return the address from which this machine reaches others; its own where it reaches none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(ELSEWHERE)
        except OSError:
            return OWN
        return str(way.getsockname()[0])


def _is_ported(setting: str) -> bool:
    """Say whether a setting ends with ports; an IPv6 address has them only after a bracket."""
    return re.search(r"(^[^:]*|\]):[0-9]{1,5}(-[0-9]{1,5})?\Z", setting) is not None


def _is_host(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return len(text) <= 253 and _NAME.fullmatch(text) is not None
