"""The line by which a machine becomes a pod: it installs, then starts a worker; pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit

from events.answers.fleet import Installation
from events.runtime.access import LOOPBACK

EXTRAS_DEFAULT: Final = ("pod", "models")
FOLDER: Final = "podfleet-pod"  # of what is installed, in the folder in which the line is typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What an operator wants of a machine: `mode`, `slots` and `pod` may be left to the machine."""

    url: str
    key: str = field(repr=False)
    pod: str | None = None
    mode: str | None = None
    slots: int | None = None
    labels: Sequence[str] = ()
    extras: Sequence[str] = EXTRAS_DEFAULT
    has_torch: bool = False
    python: str = "python3"


def line_of(wanted: Joining, served: Installation) -> str:
    """Return the line for a POSIX shell; each step is done only where the one before went well.

    pip takes every file by a hash: the wheel's stands in the line, those of the packages are in the lock.
    """
    own = ["--system-site-packages"] if wanted.has_torch else []
    query = {} if tuple(wanted.extras) == EXTRAS_DEFAULT else {"extras": ",".join(wanted.extras)}
    query |= {"torch": "own"} if wanted.has_torch else {}
    lock = f"{wanted.url}{served.requirements}{f'?{urlencode(query)}' if query else ''}"
    wheel = f"podfleet @ {wanted.url}{served.wheel}#sha256={served.sha256}"
    options = ("--no-deps", "--only-binary", ":all:", "--require-hashes")
    return " && ".join(
        (
            shlex.join([wanted.python, "-m", "venv", *own, FOLDER]),
            shlex.join([f"{FOLDER}/bin/pip", "install", *options, "-r", lock, wheel]),
            start_of(wanted),
        )
    )


def start_of(wanted: Joining) -> str:
    """Return the last step, which starts the worker; the key is in its environment, and in no argument."""
    settings = {"CONTROL_PLANE_URL": wanted.url, "PODFLEET_API_KEY": wanted.key}
    settings |= {} if wanted.pod is None else {"PODFLEET_POD_ID": wanted.pod}
    settings |= {"PODFLEET_UPDATE": ",".join(wanted.extras)}  # a restart is an update
    command = [f"{FOLDER}/bin/python", "-m", "pod_worker"]
    command += [] if wanted.mode is None else ["--mode", wanted.mode]
    command += [] if wanted.slots is None else ["--slots", str(wanted.slots)]
    for label in wanted.labels:
        command += ["--label", label]
    assigned = (f"{name}={shlex.quote(value)}" for name, value in settings.items())
    return f"{' '.join(assigned)} {shlex.join(command)}"


def fault_of_url(url: str) -> str | None:
    """Return why other machines cannot be given this address; None where they can."""
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme in ("http", "https") and not (parts.query or parts.fragment)
        if is_plain and parts.hostname and parts.port != 0 and "@" not in parts.netloc and url.isprintable():
            return None
    except ValueError:
        pass
    return f"{url!r} is no address like https://fleet.example"


def warning_of_url(url: str) -> str | None:
    """Return what an operator should know of the address; None where there is nothing."""
    parts = urlsplit(url)
    if parts.hostname in LOOPBACK:
        return f"{url} is this machine alone: set PODFLEET_PUBLIC_URL to where the machine finds it"
    if parts.scheme == "http":
        return (
            f"{url} is not encrypted: whoever is on the way reads the key, so use it in a private net alone"
        )
    return None
