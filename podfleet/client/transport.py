"""The target of a client's requests: address, key, and the limits on size and time of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from events.answers.answer import Listing
from events.runtime.access import URL_DEFAULT
from events.text.mask import masked_address
from podfleet.client.problems import BadAddress, Unreachable

ANSWER_S: Final = 30.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024  # eight times what a control plane answers at most
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Target:
    """One control plane, and the key for it; `timeout_s` bounds each wait for it."""

    url: str
    key: str | None = field(default=None, repr=False)
    timeout_s: float = ANSWER_S

    def options(self) -> Mapping[str, Any]:
        """Return the arguments of an HTTP client for this control plane. Raises `BadAddress`."""
        import ssl

        try:
            is_near = is_loopback(self.url)
        except ValueError as error:
            raise self.bad(error) from error
        # without TLS nobody is trusted, and to read the certificates of all authorities takes 30 ms
        is_plain = is_near and urlsplit(self.url).scheme == "http"
        return {
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {self.key}"} if self.key else {},
            "trust_env": not is_near,
            "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
        }

    def whole(self, response: Any) -> bytes:
        """Read the whole body of an answer of httpx. Raises `Unreachable` if it is too large."""
        content = bytearray()
        for piece in response.iter_bytes():
            content += piece
            self.bound(content)
        return bytes(content)

    def bound(self, content: bytearray) -> None:
        """Raise `Unreachable` if an answer is larger than those of a control plane."""
        if len(content) > ANSWER_BYTES_MAX:
            raise self.foreign(f"its answer has more than {ANSWER_BYTES_MAX} bytes")

    @property
    def shown(self) -> str:
        """The address without the password that it may hold."""
        return masked_address(self.url)

    def bad(self, error: Exception) -> BadAddress:
        """Return the exception for an invalid address."""
        return BadAddress(f"CONTROL_PLANE_URL is {self.shown!r}: {error}; it is like {URL_DEFAULT}")

    def silent(self, error: Exception) -> Unreachable:
        """Return the exception for a control plane that does not answer."""
        return Unreachable(
            f"no control plane at {self.shown} ({type(error).__name__}); start one with `podfleet up`, "
            "or set CONTROL_PLANE_URL; `podfleet doctor` looks closer"
        )

    def foreign(self, why: object) -> Unreachable:
        """Return the exception for an answer that no control plane of this version gives."""
        return Unreachable(
            f"what answers at {self.shown} is no control plane, or one of another version ({why}); "
            "CONTROL_PLANE_URL says where to look"
        )


def warn_of_damage(page: Listing[Any]) -> None:
    """Log which documents of a page the control plane could not read."""
    import logging

    for each in page.unreadable or ():
        logging.getLogger(__name__).warning("left out, since it is damaged: %r: %r", each.id, each.problem)


class Connected:
    """The base class of the clients: a target, and the connections to it once they are open."""

    def __init__(
        self,
        url: str = URL_DEFAULT,
        key: str | None = None,
        *,
        timeout_s: float = ANSWER_S,
        transport: Any = None,
    ) -> None:
        self.target = Target(url, key, timeout_s)
        self._transport = transport
        self._http: Any = None


def is_loopback(url: str) -> bool:
    """Say whether an address is on this machine, to which no proxy leads."""
    return urlsplit(url).hostname in LOOPBACK
