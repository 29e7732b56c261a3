"""Known vulnerabilities of the running Python: those that its later patch releases closed.

Law: an old patch level is reported, in the log of each program at its start and by `podfleet doctor`, and
refused nowhere. A refusal would be right where a vulnerability can be reached from outside and none of our
code is before it. There is no such one: cookies are read by `control_plane.access.cookies`, addresses
judged by `events.runtime.egress_policy`. A change that uses a listed part of the standard library has
to refuse instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# By line of releases: the first one in which all of the holes below are closed.
MENDED: Final[Mapping[tuple[int, int], int]] = {(3, 11): 10, (3, 12): 6}
HOLES: Final = (
    "quadratic reading of cookies (CVE-2024-7592), private addresses taken for public (CVE-2024-4032)"
)


def objection(version: tuple[int, int, int]) -> str | None:
    """Return what is wrong with a Python of this version, and what to do; None where nothing is known."""
    mended = MENDED.get(version[:2])
    if mended is None or version[2] >= mended:
        return None
    line = f"{version[0]}.{version[1]}"
    return (
        f"Python {line}.{version[2]} has holes that {line}.{mended} closed: {HOLES}. podfleet does not "
        f"rely on what is broken there; install {line}.{mended} or newer all the same"
    )
