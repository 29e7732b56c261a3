"""The addresses at which a control plane listens: its own, and one for others, with TLS or without.

A certificate that is renewed is read again: connections that begin then have the new one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from events.runtime.errors import ConfigError

log = logging.getLogger(__name__)

PORT_MAX: Final = 65_535
HANDSHAKE_S: Final = 10.0  # until then a connection is none of those that are counted
CERTIFICATE_S: Final = 60.0  # until a renewed certificate is noticed
BACKLOG: Final = 2_048


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a certificate, with its chain, and of its private key; both PEM."""

    certificate: Path
    private_key: Path

    def load(self, tls: ssl.SSLContext) -> None:
        """Have new connections use what the files hold now. Raises `ConfigError`."""
        try:
            tls.load_cert_chain(self.certificate, self.private_key, password="")
        except (OSError, ssl.SSLError) as error:
            words = f"--certificate {self.certificate}, --private-key {self.private_key}: {error}"
            raise ConfigError([words]) from error

    def context(self) -> ssl.SSLContext:
        """Return what a server with this certificate needs. Raises `ConfigError`."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load(tls)
        return tls

    def version(self) -> tuple[int, ...]:
        """Return what changes when a file is put in another's place; empty where one is not there."""
        try:
            return tuple(each.stat().st_mtime_ns for each in (self.certificate, self.private_key))
        except OSError:
            return ()


@dataclass(slots=True)
class CertificateReloader:
    """Reads a certificate again when its files change; `run_once` says whether it did."""

    certificate: Certificate
    tls: ssl.SSLContext
    _version: tuple[int, ...] = ()

    async def run_once(self) -> bool:
        """Look at the files once; one that is half written is read the next time."""
        found = self.certificate.version()
        if not found or found == self._version:
            return False
        try:
            await asyncio.to_thread(self.certificate.load, self.tls)
        except ConfigError as error:
            log.warning("certificate.unread", extra={"why": error.message})
            return False
        self._version = found
        return True


def bound(host: str, port: int, option: str) -> socket.socket:
    """Return a socket of this address; taking it first tells about a taken port before anything else.

    Raises `ConfigError`, which names the option that chose the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. An answer goes out in two pieces; the second would wait 40 ms for the client to
    # confirm the first, on every request of a kept connection.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        taken = f"cannot listen on {host}:{port} ({error.strerror}); choose another {option}"
        raise ConfigError([taken]) from error
    return listener


def address_of(text: str) -> tuple[str, int] | None:
    """Return host and port of `HOST:PORT` or `[HOST]:PORT`; None where it is neither."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not (colon and host and port.isascii() and port.isdigit() and len(port) < len(str(PORT_MAX)) + 1):
        return None
    return (host, int(port)) if 0 < int(port) <= PORT_MAX else None


async def listen(protocol: Any, listener: socket.socket, tls: ssl.SSLContext | None) -> asyncio.Server:
    """Serve connections of a bound socket, each by what `protocol` makes."""
    return await asyncio.get_running_loop().create_server(
        protocol,
        sock=listener,
        ssl=tls,
        backlog=BACKLOG,
        ssl_handshake_timeout=HANDSHAKE_S if tls else None,
    )
