"""The servers beside a pod that its operator lets runs use, by their names; pure.

Law: a run names one, and never gives an address: what is reachable from a pod is its operator's to say.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from events.runtime.errors import ConfigError, PipelineError

SETTING: Final = "PODFLEET_ENDPOINTS"
ENDPOINTS_MAX: Final = 32
URL_CHARS_MAX: Final = 500
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def endpoints(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses by their names, out of `NAME=URL,NAME=URL`. Raises `ConfigError`."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for word in filter(None, map(str.strip, environ.get(SETTING, "").split(","))):
        name, _, url = word.partition("=")
        if problem := _problem(name, url, found):
            problems.append(f"{SETTING}: {problem}; it is like comfyui=http://127.0.0.1:8188")
        else:
            found[name] = url.rstrip("/")
    if problems:
        raise ConfigError(problems)
    return found


def endpoint(environ: Mapping[str, str], name: str) -> str:
    """Return the address of one. Raises `PipelineError` that says how the pod would have it."""
    try:
        found = endpoints(environ)
    except ConfigError as error:
        raise PipelineError("NOT_AVAILABLE", str(error), retryable=True) from error
    if name not in found:
        raise PipelineError(
            "NOT_AVAILABLE",
            f"this pod lets runs use no server {name!r}: {SETTING}={name}=http://127.0.0.1:PORT allows one",
            retryable=True,
        )
    return found[name]


def _problem(name: str, url: str, found: Mapping[str, str]) -> str:
    """Return what is wrong with an entry; its address is not repeated, since it may have a password."""
    if not NAME.fullmatch(name):
        return f"{name[:40]!r} is no name of a-z, 0-9, '_' and '-'"
    if name in found or len(found) == ENDPOINTS_MAX:
        return f"{name} is there twice" if name in found else f"{ENDPOINTS_MAX} servers at most"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return f"{name} has no address"
    if parts.scheme not in ("http", "https") or not host or len(url) > URL_CHARS_MAX or not url.isprintable():
        return f"{name} has no address that begins with http:// or https://"
    if parts.username or parts.password or parts.query or parts.fragment or " " in url:
        return f"{name} has an address with a user, a password or a query"
    return (
        "" if _is_near(host) else f"{name} is at a public address: only servers of the own network are used"
    )


def _is_near(host: str) -> bool:
    """Return whether an address is of this machine or a private network; names are believed."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return True
    return (found.is_loopback or found.is_private) and not (found.is_link_local or found.is_unspecified)
