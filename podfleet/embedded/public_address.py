"""The address by which others reach a fleet on one machine: what was said of it, and what follows, pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from events.runtime.access import LOOPBACK

EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - a public address is for others
USUAL: Final = {"http": 80, "https": 443}
CLEAR: Final = (
    "warning: {url} is no https: keys and files travel in clear text, and browsers elsewhere stay signed in "
    "to no page; give --certificate and --private-key, or put a proxy with a certificate before it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicAddress:
    """What the user says of it; `url` is None where there is none."""

    url: str | None = None
    listen: str | None = None
    certificate: Path | None = None
    private_key: Path | None = None

    @property
    def origin(self) -> str | None:
        """The address without a slash at its end."""
        return None if self.url is None else self.url.rstrip("/")

    @property
    def place(self) -> tuple[str, int] | None:
        """Host and port to listen at; None where a proxy on this machine passes requests on."""
        if self.origin is None:
            return None
        parts = urlsplit(self.origin)
        if self.listen is None and parts.scheme == "https" and self.certificate is None:
            return None
        host, port = _split(self.listen or EVERYWHERE)
        return host, port or parts.port or USUAL[parts.scheme]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the options of the control plane."""
        if self.place is None:
            return ()
        host, port = self.place
        found: tuple[str, ...] = ("--listen", f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        if self.certificate is not None and self.private_key is not None:
            found += ("--certificate", str(self.certificate.absolute()))
            found += ("--private-key", str(self.private_key.absolute()))
        return found

    def problems(self, *, keyless: bool) -> Iterator[str]:
        """Yield what cannot work, in words for the user."""
        if self.origin is None:
            if self.listen or self.certificate or self.private_key:
                yield "--listen, --certificate and --private-key are for a public address: give --public URL"
            return
        if not _is_origin(self.origin):
            yield f"--public is {self.url!r}; it is like https://fleet.example:8443, without a path"
            return
        if keyless:
            yield "--keyless is for a machine of one's own, and --public is for others: leave one away"
        if (self.certificate is None) != (self.private_key is None):
            yield "--certificate and --private-key belong together"
        if self.certificate is not None and self.origin.startswith("http://"):
            yield f"--certificate is for an address by https, and --public is {self.url}"
        if self.listen is not None and not 0 <= (_split(self.listen)[1] or 0) < 65_536:
            yield f"--listen is {self.listen!r}; it is like 0.0.0.0 or 0.0.0.0:8443"

    def warnings(self) -> Iterator[str]:
        """Yield what works, and is not safe."""
        is_clear = self.origin is not None and self.origin.startswith("http://")
        if is_clear and urlsplit(self.origin).hostname not in LOOPBACK:
            yield CLEAR.format(url=self.origin)


def _split(listen: str) -> tuple[str, int | None]:
    """Return host and port of `HOST`, `HOST:PORT` or `[HOST]:PORT`; -1 for a port that is no number."""
    if listen.startswith("["):
        host, _, rest = listen[1:].partition("]")
        port = rest.removeprefix(":")
    elif listen.count(":") == 1:
        host, _, port = listen.partition(":")
    else:
        host, port = listen, ""
    if not port:
        return host, None
    return host, int(port) if port.isascii() and port.isdigit() and len(port) < 6 else -1


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_plain = url == f"{parts.scheme}://{parts.netloc}" and "@" not in url and url.isprintable()
        return is_plain and parts.scheme in USUAL and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


NOT_PUBLIC: Final = PublicAddress()
