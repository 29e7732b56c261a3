"""What has to be true of each file that was kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from testing.chaos.checking.evidence import Evidence, Violation

PRESENT: Final = "each registered artifact is there, with its hash"
OWN_PLACE: Final = "each object lies in the place of its own attempt"
# The small objects by which pods and control planes test the storage are of no run.
TESTS: Final = re.compile(r"\.podfleet/(uploads/\d{4}|signing|trial)")
KEY: Final = re.compile(r"runs/(?P<run>[^/]+)/a(?P<attempt>\d+)/.+")


def present(evidence: Evidence) -> Iterator[Violation]:
    """What was registered can be read back as it was."""
    if evidence.objects is None:
        return
    for artifact in evidence.artifacts:
        found = evidence.objects.get(artifact["key"])
        if found is None:
            yield Violation(PRESENT, artifact["runId"], f"{artifact['key']} is registered, and not there")
        elif (found.size, found.sha256) != (artifact["size"], artifact["sha256"]):
            message = f"{artifact['key']} holds {found.size} bytes with SHA-256 {found.sha256}"
            yield Violation(PRESENT, artifact["runId"], message)


def own_place(evidence: Evidence) -> Iterator[Violation]:
    """Nobody wrote below another attempt's prefix, or below one that nobody ever had."""
    for artifact in evidence.artifacts:
        if not artifact["key"].startswith(f"runs/{artifact['runId']}/a{artifact['attempt']}/"):
            message = f"attempt {artifact['attempt']} registered {artifact['key']}"
            yield Violation(OWN_PLACE, artifact["runId"], message)
    for key in evidence.objects or ():
        if TESTS.fullmatch(key):
            continue
        match = KEY.fullmatch(key)
        run = None if match is None else evidence.runs.get(match["run"])
        if match is None or run is None or not 1 <= int(match["attempt"]) <= run["attempt"]:
            yield Violation(OWN_PLACE, None, f"{key} belongs to no attempt")
