"""Reads which services of the pod its operator lets people reset, and by which command; pure.

Law: what is not named here is never run. A command is words, which no shell reads.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from typing import Final

from events.text.service_name import SERVICE_NAME

SETTING: Final = "PODFLEET_SERVICES"
SERVICES_MAX: Final = 16
WORDS_MAX: Final = 64
# What needs no command of the operator, but has to be named as well.
BUILT_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "engine-cache": (sys.executable, "-m", "pod_worker.child.inventory", "--empty-cache"),
}


def services_of(text: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the commands by name, and what is wrong with the text.

    The text has one `NAME=COMMAND` in a line, or between semicolons, or the name of what is built in.
    """
    found: dict[str, tuple[str, ...]] = {}
    problems = []
    for line in filter(None, (each.strip() for each in re.split(r"[;\n]", text))):
        name, _, command = (part.strip() for part in line.partition("="))
        if name.startswith("#"):
            continue
        try:
            words = tuple(shlex.split(command)) if command else BUILT_IN.get(name, ())
        except ValueError as error:
            problems.append(f"{SETTING}: the command of {name[:40]!r} cannot be read: {error}")
            continue
        if not re.fullmatch(SERVICE_NAME, name):
            problems.append(
                f"{SETTING}: {name[:40]!r} is no name of a service: use a-z, 0-9, '.', '_' and '-'"
            )
        elif not words:
            known = ", ".join(BUILT_IN)
            problems.append(f"{SETTING}: {name} has no command; write {name}=COMMAND (built in are: {known})")
        elif len(words) > WORDS_MAX:
            problems.append(f"{SETTING}: the command of {name} has more than {WORDS_MAX} words")
        elif name in found:
            problems.append(f"{SETTING}: {name} is there twice")
        else:
            found[name] = words
    if len(found) > SERVICES_MAX:
        problems.append(f"{SETTING} names {len(found)} services; at most {SERVICES_MAX} are taken")
    return found, problems
