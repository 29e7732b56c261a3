"""What a run asks of a pod, and the class by which a claim finds it, pure.

A class is `kind/gpu tier/region`, with `/@project` behind it unless that is the default one, `/labels` behind
that where labels are asked for, and `~pod/` before it where the run is pinned. So the classes of a pod's pins
stand together, behind all that are not pinned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec

from events.kinds import known_fields
from events.queue.fair import shares
from events.queue.labels import ASKED, AT_LEAST, GPU_GIB, NAME, VALUE, problem_with, words_of
from events.runtime.errors import Rejected

GPU_TIERS: Final = ("cpu", "8", "16", "24", "40", "80")  # GiB of GPU memory, smallest first
ANY_REGION: Final = "any"
NO_KIND: Final = ""
GPU_GIB_MAX: Final = 4_096
GPUS_MAX: Final = 64
OF_GPUS: Final = ("gpu", GPU_GIB)  # labels that only pods with a device have
LABELS_MAX: Final = 16
LABELS_CHARS_MAX: Final = 400  # of their part of the class
PIN: Final = "~"  # behind every letter, and so behind every kind
# What no name of a pod has: spaces, and letters that nobody sees or that turn others around, by which a pod
# would look like another one to people.
UNSEEN: Final = (
    r"\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
)
POD_NAME: Final = rf"[^{UNSEEN}/]{{1,200}}"
POD_ID: Final = rf"[^{UNSEEN}]{{1,200}}"  # with the start of its worker behind the name

LabelName = Annotated[str, msgspec.Meta(pattern=rf"\A{NAME}\Z")]
LabelAsked = Annotated[str, msgspec.Meta(pattern=rf"\A{ASKED}\Z")]


class Requirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pod must have: memory of one GPU in GiB (0: none needed), its region, labels, and its name.

    A label has the value that is asked for, or at least the number behind `>=`. Only the pod of the name
    `pod` takes the run, at any start of its worker. `gpus` and `gpu` are short for labels, and become them.
    """

    gpu_gib: Annotated[float, msgspec.Meta(ge=0, le=GPU_GIB_MAX)] = 0
    gpus: Annotated[
        int,
        msgspec.Meta(ge=0, le=GPUS_MAX, description="How many GPUs one slot of the pod has, at least."),
    ] = 0
    gpu: Annotated[
        Annotated[str, msgspec.Meta(pattern=rf"\A{VALUE}\Z")] | None,
        msgspec.Meta(description="Name of the GPU in short, such as h100."),
    ] = None
    region: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")] = ANY_REGION
    labels: Annotated[Mapping[LabelName, LabelAsked], msgspec.Meta(max_length=LABELS_MAX)] = {}
    pod: Annotated[
        Annotated[str, msgspec.Meta(pattern=rf"\A{POD_NAME}\Z")] | None,
        msgspec.Meta(description="Name of a pod, without what stands behind its slash in lists."),
    ] = None


@dataclass(frozen=True, slots=True)
class RunClass:
    """A class, in its parts; `labels` in the order of their names."""

    kind: str
    tier: str
    region: str
    labels: tuple[tuple[str, str], ...] = ()
    pod: str | None = None
    project: str = shares.DEFAULT

    @property
    def base(self) -> str:
        """The class without project, labels and pin."""
        return f"{self.kind}/{self.tier}/{self.region}"

    @property
    def gpus(self) -> int:
        """How many GPUs a run of the class has: at least one where it asks for a device in any way."""
        asked = dict(self.labels)
        least = int(self.tier != GPU_TIERS[0] or not asked.keys().isdisjoint(OF_GPUS))
        number = asked.get("gpus", "").removeprefix(AT_LEAST)
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}", number):
            return least
        whole, *parts = map(int, number.split("."))
        return max(least, whole + any(parts))  # no pod has a part of one


def read_requirements(raw: Mapping[str, Any]) -> Requirements:
    """Return checked requirements, GPUs as labels. Raises `Rejected` that names the field that is wrong."""
    try:
        found = with_labels(msgspec.convert(dict(raw), Requirements))
    except msgspec.ValidationError as error:
        why = problem_with(raw.get("labels")) or f"{error}{known_fields(error, Requirements)}"
        raise _invalid(why) from error
    if len(_labels(found.labels)) > LABELS_CHARS_MAX:
        raise _invalid(
            f"the labels are too long together; at most {LABELS_CHARS_MAX} characters - at `$.labels`"
        )
    return found


def asked_with(raw: Mapping[str, Any], asked: Mapping[str, str]) -> Mapping[str, Any]:
    """Return requirements as they were given, with the labels that a specification asks for."""
    labels = raw.get("labels", {})
    return {**raw, "labels": {**labels, **asked}} if asked and isinstance(labels, Mapping) else raw


def with_labels(wanted: Requirements) -> Requirements:
    """Return requirements with what is asked of GPUs as labels. Raises `Rejected` where two of them differ.

    So the class has it, and a claim finds it as any label. Memory above the largest tier is one, too.
    """
    largest = float(GPU_TIERS[-1])
    asked = {
        "gpus": f"{AT_LEAST}{wanted.gpus}" if wanted.gpus else None,
        "gpu": wanted.gpu,
        GPU_GIB: f"{AT_LEAST}{math.ceil(wanted.gpu_gib)}" if wanted.gpu_gib > largest else None,
    }
    labels = dict(wanted.labels)
    for name, value in asked.items():
        if value is not None and labels.setdefault(name, value) != value:
            raise _invalid(f"{name} is asked for twice: {words_of(name, labels[name])} is a label, too")
    return msgspec.structs.replace(wanted, gpus=0, gpu=None, labels=labels)


def _invalid(why: str) -> Rejected:
    return Rejected("invalid_requirements", f"requires: {why}")


def class_key(kind: str, requirements: Requirements, project: str = shares.DEFAULT) -> str:
    """Return the class: everything by which a claim may choose among runs."""
    requirements = with_labels(requirements)
    key = f"{kind}/{gpu_tier(requirements.gpu_gib)}/{requirements.region}"
    if project != shares.DEFAULT:
        key += f"/{shares.MARK}{project}"
    if requirements.labels:
        key += f"/{_labels(requirements.labels)}"
    return key if requirements.pod is None else f"{PIN}{requirements.pod}/{key}"


def _labels(labels: Mapping[str, str]) -> str:
    """Return labels as one text, the same for the same labels; no name or value has its separators."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


@lru_cache(maxsize=4_096)
def read_class(key: str) -> RunClass:
    """Return the parts of a class that `class_key` made; anything else is of no kind: no pod serves it."""
    try:
        return _parts(key)
    except ValueError:  # of a damaged run, which shall keep no pod from the others
        return RunClass(NO_KIND, GPU_TIERS[0], ANY_REGION)


def _parts(key: str) -> RunClass:
    pod, key = key.removeprefix(PIN).split("/", 1) if key.startswith(PIN) else (None, key)
    kind, tier, region, *behind = key.split("/", 3)
    if tier not in GPU_TIERS:
        raise ValueError(f"{tier!r} is no tier")
    project, labels = shares.DEFAULT, behind[0] if behind else ""
    if labels.startswith(shares.MARK):
        project, _, labels = labels.removeprefix(shares.MARK).partition("/")
    pairs = [each.partition("=") for each in labels.split(",")] if labels else []
    return RunClass(kind, tier, region, tuple((name, value) for name, _, value in pairs), pod, project)


def classes_of(region: str | None = None, project: str | None = None) -> str:
    """Return the pattern of all classes of a region, a project, or both."""
    place = "[^/]*" if region is None else re.escape(region)
    pattern = rf"^({PIN}[^/]*/)?[^{PIN}/]*/[^/]*/{place}"
    if project is None:
        return rf"{pattern}(/|$)"
    if project == shares.DEFAULT:
        return rf"{pattern}(/[^{shares.MARK}]|$)"
    return rf"{pattern}/{shares.MARK}{re.escape(project)}(/|$)"


def gpu_tier(gpu_gib: float) -> str:
    """Return the smallest tier that holds `gpu_gib` GiB, the largest for more, which a label says."""
    if gpu_gib <= 0:
        return GPU_TIERS[0]
    return next((tier for tier in GPU_TIERS[1:] if gpu_gib <= float(tier)), GPU_TIERS[-1])
