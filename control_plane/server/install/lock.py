"""What a pod installs beside podfleet: the locked packages of the extras that it wants, by their hashes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from events.runtime.errors import Rejected

FILE: Final = Path(__file__).with_name("pods.json")
EXTRAS_DEFAULT: Final = "pod,models"
EXTRAS_CHARS_MAX: Final = 200
TITLE: Final = (
    "# What a pod of podfleet needs for: {extras}. Written by its control plane.\n"
    "# pip install --no-deps --only-binary :all: --require-hashes -r THIS\n"
)
# What only PyTorch asks for, besides itself: a machine that has its own has them with it.
WITH_TORCH: Final = ("torch", "triton", "cuda-", "nvidia-")
NOT_WITH_TORCH: Final = ("nvidia-ml-py",)


class Pin(msgspec.Struct, frozen=True):
    """The version of a package, and the hashes of all its files."""

    version: str
    hashes: tuple[str, ...]


class Lock(msgspec.Struct, frozen=True):
    """The pins of all that pods may need; and for each extra its packages, with the marker of each."""

    extras: dict[str, dict[str, str]]
    pins: dict[str, Pin]


@cache
def read_lock() -> Lock:
    """Return the lock that lies beside this module (`python -m scripts.lock` writes it)."""
    return msgspec.json.decode(FILE.read_bytes(), type=Lock)


def wanted_extras(text: str, lock: Lock) -> list[str]:
    """Return the extras that a text names, separated by commas. Raises `Rejected` for one that pods lack."""
    names = dict.fromkeys(filter(None, (each.strip() for each in text.split(","))))
    known = ", ".join(lock.extras)
    if not names:
        raise Rejected("unknown_extra", f"name an extra of pods: {known}")
    for name in names:
        if name not in lock.extras:
            raise Rejected("unknown_extra", f"there is no extra {name!r} for pods; there are {known}")
    return [*names]


def requirements(lock: Lock, extras: Sequence[str], *, has_torch: bool = False) -> str:
    """Return the requirements of pip for these extras, every package in one list: nothing asks for another.

    A machine that `has_torch` is told neither PyTorch nor what comes with it.
    """
    markers: dict[str, set[str]] = {}
    for extra in extras:
        for name, marker in lock.extras[extra].items():
            if not (has_torch and _comes_with_torch(name)):
                markers.setdefault(name, set()).add(marker)
    lines = [_line(name, lock.pins[name], markers[name]) for name in sorted(markers)]
    return TITLE.format(extras=", ".join(extras)) + "".join(f"{line}\n" for line in lines)


def _comes_with_torch(name: str) -> bool:
    return name.startswith(WITH_TORCH) and name not in NOT_WITH_TORCH


def _line(name: str, pin: Pin, markers: set[str]) -> str:
    """Return one requirement, on the platforms of any of its markers; an empty one is of every platform."""
    where = "" if "" in markers else f" ; {' or '.join(f'({each})' for each in sorted(markers))}"
    return " \\\n    ".join((f"{name}=={pin.version}{where}", *(f"--hash={each}" for each in pin.hashes)))
