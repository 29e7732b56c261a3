"""Resolves the address of the control plane, and the key that is sent there.

Law: a key goes only to the address that was named in the same place as it: the environment, the folder's
`.env`, or the fleet that runs in the folder (`podfleet up`). A key that was named without an address goes
to this machine's fleet. Otherwise a folder with foreign content could have our key sent to its author.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from events.runtime.errors import ConfigError

URL: Final = "CONTROL_PLANE_URL"
KEY: Final = "PODFLEET_API_KEY"
URL_DEFAULT: Final = "http://127.0.0.1:8700"
DATA_DEFAULT: Final = Path(".podfleet")
FILE: Final = "access.json"
FILE_BYTES_MAX: Final = 4_096
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Access:
    """An address and the key for it, None where none is known; of a fleet of this machine also its `stores`.

    Those are the settings of its database and its object storage, by their names. At `public_url` others
    reach it.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    stores: Mapping[str, str] = field(default_factory=dict, repr=False)
    public_url: str | None = None


def access(environment: Mapping[str, str], written: Mapping[str, str], near: Access | None) -> Access:
    """Return the control plane to ask, by the environment, a folder's `.env`, and the fleet that runs there.

    Raises `ConfigError` where a key is set that was not made for the address.
    """
    home = near.url if near else URL_DEFAULT
    places = {"the environment": environment, ".env": written}
    url = next((values[URL] for values in places.values() if values.get(URL)), home).rstrip("/")
    keys = {name: values for name, values in places.items() if values.get(KEY)}
    for values in keys.values():
        if _is_same(values.get(URL) or home, url):
            return Access(url, values[KEY])
    if near is not None and near.key and _is_same(near.url, url):
        return Access(url, near.key)
    if keys:
        here, there = next(iter(keys)), next(name for name, values in places.items() if values.get(URL))
        raise ConfigError(
            [
                f"{KEY} of {here} is not sent to the address that {there} names in {URL}: "
                f"set both in {here}, or both in {there}"
            ]
        )
    return Access(url)


def running(data: Path) -> Access | None:
    """Return the fleet that runs in a data folder of ours; None where there is none, or not any more."""
    try:
        # Without waiting: what lies there may be a pipe, which nobody writes to.
        with os.fdopen(os.open(data / FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                return None  # somebody else's, or anybody's: who knows what it says
            found = json.loads(file.read(FILE_BYTES_MAX))
        stores = {str(name): str(value) for name, value in found.get("stores", {}).items()}
        public_url = None if found.get("public_url") is None else str(found["public_url"])
        near = Access(str(found["url"]), str(found["api_key"]), stores, public_url)
        is_alive = moment_of(found["pid"]) == found["moment"]
        return near if is_alive and _is_of_this_machine(near.url) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None  # none, or one that is being written: nobody runs there yet


def noted(found: Access, pid: int) -> str:
    """Return what `running` reads of a fleet that this process runs."""
    fleet = {"url": found.url, "api_key": found.key, "stores": dict(found.stores)}
    if found.public_url is not None:
        fleet["public_url"] = found.public_url
    return json.dumps({**fleet, "pid": pid, "moment": moment_of(pid)})


def moment_of(pid: int) -> str:
    """Return when a process began, in the kernel's ticks: its number may be another one's tomorrow.

    Raises `OSError` where it is gone. Where the kernel has no such moment, all live processes have the same.
    """
    if not Path("/proc/self/stat").exists():
        os.kill(pid, 0)
        return ""
    return Path(f"/proc/{int(pid)}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]


def _is_of_this_machine(url: str) -> bool:
    """Return whether an address is one that `podfleet up` may have: an archive can bring such a file along.

    It names a process that lives everywhere, and would have the environment's key sent to any address.
    """
    scheme, host, *_ = _place(url)
    return (scheme, host) == ("http", "loopback")


def _is_same(one: str, other: str) -> bool:
    return _place(one) == _place(other)


def _place(url: str) -> tuple[str, str, int | None, str]:
    """Return what makes an address the same; one that cannot be read is only itself."""
    try:
        parts = urlsplit(url.rstrip("/"))
        host = "loopback" if parts.hostname in LOOPBACK else parts.hostname or ""
        return parts.scheme, host, parts.port, parts.path
    except ValueError:
        return "", url, None, ""
