"""Where other pods reach this one."""

from __future__ import annotations

import socket
from typing import Final

# Of the networks for documentation: nothing is sent there, the machine only says by which way it would be.
ELSEWHERE: Final = ("192.0.2.1", 9)
OWN: Final = "127.0.0.1"


def free_address(host: str | None = None) -> str:
    """Return a host and a port that nobody has at the moment: HOST:PORT."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("", 0))
        return f"{host or outgoing_host()}:{listener.getsockname()[1]}"


def outgoing_host() -> str:
    """Return the address from which this machine reaches others; its own where it reaches none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(ELSEWHERE)
        except OSError:
            return OWN
        return str(way.getsockname()[0])
