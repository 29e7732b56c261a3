"""The labels of pods: their form, what a pod says of itself, and when it has what a run asks for; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from events.models.endpoints import ENDPOINTS_MAX
from events.models.job_containers import HAS, LABEL

NAME: Final = "[a-z][a-z0-9_-]{0,31}"
VALUE: Final = "[A-Za-z0-9._-]{1,64}"
ASKED: Final = rf"(>=[0-9]{{1,9}}(\.[0-9]{{1,9}}){{0,3}}|{VALUE})"
NAME_WORDS: Final = "it has a lower-case letter, then at most 31 of a-z, 0-9, _ and -"
VALUE_WORDS: Final = "a value has 1 to 64 of A-Z, a-z, 0-9, ., _ and -"
OPERATORS_MAX: Final = 16
GPU_GIB: Final = "gpu_gib"  # memory of the largest GPU
NOMINAL: Final = 0.95  # a card reports a little less memory than its name says
OWN: Final = ("gpu", "gpus", GPU_GIB, "cpu", "memory", "disk", "driver", "region", LABEL)
ENGINE: Final = "engine-"  # before the name of one that the pod has
ENGINES_MAX: Final = 16
ENDPOINT: Final = "endpoint-"  # before the name of a server that the pod's runs may ask
# What a pod says by other fields, and a label of the name would seem to say.
RESERVED: Final = frozenset({*OWN, "kind", "kinds", "mode", "name", "pod"})
SAID_MAX: Final = OPERATORS_MAX + len(OWN) + ENGINES_MAX + ENDPOINTS_MAX
AT_LEAST: Final = ">="

_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}")
# The words of a device's name that do not tell which chip it is: maker, line, memory, form, edition.
_NOT_THE_CHIP: Final = re.compile(
    r"nvidia|amd|tesla|quadro|geforce|instinct|graphics|device|gpu|generation|edition|server|workstation"
    r"|[0-9]+gb|hbm[0-9]*e?|sxm[0-9]*|pcie|nvl|sff"
)


def has(asked: str, said: str | None) -> bool:
    """Return whether a pod that says `said` of a label has what is asked: the same text, or `>=` a number.

    Numbers are compared part by part, as those of releases: 550.54 is less than 550.127.
    """
    if said is None or not asked.startswith(AT_LEAST):
        return said == asked
    least = asked.removeprefix(AT_LEAST)
    return bool(_NUMBER.fullmatch(said)) and _parts(said) >= _parts(least)


def _parts(number: str) -> list[int]:
    parts = [int(each) for each in number.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return parts


def short_name(gpu: str) -> str | None:
    """Return the short form of a device's name, such as h100 for NVIDIA H100 80GB HBM3.

    It is what is left, in lower case and joined by hyphens, without maker, line, memory, form and edition. A
    slice of a card keeps its profile: it is another device. None if nothing is left.
    """
    words = re.split(r"[\s_/()-]+", re.sub("[^a-z0-9._/()\\s-]", "", gpu.lower()))
    whole, *profile = " ".join(words).split(" mig ", 1)
    left = [each for each in whole.split() if not _NOT_THE_CHIP.fullmatch(each)]
    if left and profile:
        left += ["mig", *profile[0].split()]
    return "-".join(left)[:64] or None


def own_labels(
    *,
    gpus: Sequence[tuple[str, float]],
    cpus: int,
    memory_mib: float,
    disk_mib: float | None,
    driver: str | None,
    region: str | None,
    engines: Sequence[str] = (),
    endpoints: Sequence[str] = (),
    has_containers: bool = False,
) -> dict[str, str]:
    """Return what a pod says of itself; `gpus` are the names and memories of its devices.

    `gpu` is the device of the most memory, `gpus` how many of that name there are; `gpu_gib`, `memory` and
    `disk` are whole GiB. Each of the `engines` that can serve a model there has a label of its own, and so
    has each of the `endpoints` that runs may ask.
    """
    names = [short_name(name) for name, _ in sorted(gpus, key=lambda each: -each[1])]
    gpu = names[0] if names else None
    found = {
        "gpu": gpu,
        "gpus": str(names.count(gpu) if names else 0),
        GPU_GIB: _gib(max(memory for _, memory in gpus)) if gpus else None,
        "cpu": str(cpus),
        "memory": _gib(memory_mib),
        "disk": None if disk_mib is None else _gib(disk_mib),
        "driver": driver,
        "region": region,
        LABEL: HAS if has_containers else None,
        **engine_labels(engines[:ENGINES_MAX]),
        **endpoint_labels(endpoints[:ENDPOINTS_MAX]),
    }
    return {name: value for name, value in found.items() if value and re.fullmatch(VALUE, value)}


def engine_labels(engines: Iterable[str]) -> dict[str, str]:
    """Return the labels of a pod that has these engines."""
    return {f"{ENGINE}{name}": HAS for name in engines}


def endpoint_labels(names: Iterable[str]) -> dict[str, str]:
    """Return the labels of a pod whose runs may ask these servers."""
    return {f"{ENDPOINT}{name}": HAS for name in names}


def _gib(mib: float) -> str:
    return str(round(mib / 1024))


def read_labels(pairs: Iterable[str], source: str) -> tuple[dict[str, str], list[str]]:
    """Return the labels of an operator from texts `name=value`, and what is wrong with them, in words."""
    found, problems = dict[str, str](), list[str]()
    for pair in filter(None, map(str.strip, pairs)):
        name, equals, value = pair.partition("=")
        if not equals:
            problems.append(f"{source}: {pair[:100]!r} is not name=value, such as rack=a4")
        elif not _fits(NAME, name):
            problems.append(f"{source}: {name[:100]!r} is no name of a label; {NAME_WORDS}")
        elif name in RESERVED or name.startswith((ENGINE, ENDPOINT)):
            problems.append(f"{source}: {name!r} is said by the pod itself, and cannot be set")
        elif not _fits(VALUE, value):
            problems.append(f"{source}: {name} is {value[:100]!r}; {VALUE_WORDS}")
        elif found.setdefault(name, value) != value:
            problems.append(f"{source}: {name} is given twice, as {found[name]} and as {value}")
    return found, problems


def operators_labels(setting: str | None, options: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the labels of `PODFLEET_LABELS`, those of `--label` over them, and what is wrong with them."""
    from_setting, problems = read_labels((setting or "").split(","), "PODFLEET_LABELS")
    from_options, others = read_labels(options, "--label")
    found = {**from_setting, **from_options}
    if len(found) > OPERATORS_MAX:
        others.append(f"--label, PODFLEET_LABELS: {len(found)} labels; a pod has at most {OPERATORS_MAX}")
    return found, [*problems, *others]


def _fits(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def missing(asked: Iterable[tuple[str, str]], said: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the labels of those asked for that a pod lacks."""
    return [(name, value) for name, value in asked if not meets(name, value, said.get(name))]


def meets(name: str, asked: str, said: str | None) -> bool:
    """Return whether a pod that says `said` of a label has what is asked; memory is meant nominally."""
    if name == GPU_GIB and said is not None and asked.startswith(AT_LEAST):
        least = asked.removeprefix(AT_LEAST)
        if least.isdecimal() and said.isdecimal():
            return int(said) >= int(least) * NOMINAL
    return has(asked, said)


def problem_with(labels: object) -> str | None:
    """Return in words which of the labels that a run asks for cannot be meant; None where that is not all."""
    for name, value in labels.items() if isinstance(labels, Mapping) else ():
        if not (isinstance(name, str) and _fits(NAME, name)):
            return f"labels: {str(name)[:100]!r} is no name of a label; {NAME_WORDS}"
        if not isinstance(value, str):
            return f"labels: {name} is {str(value)[:100]}, which is no text; write it in quotes"
        if not _fits(ASKED, value):
            return f"labels: {name} is {value[:100]!r}; {VALUE_WORDS}, or >= and a number, such as >=4"
    return None


def words_of(name: str, asked: str) -> str:
    """Return a label as it is asked for, such as gpu=h100 or gpus>=4."""
    return f"{name}{'' if asked.startswith(AT_LEAST) else '='}{asked}"
