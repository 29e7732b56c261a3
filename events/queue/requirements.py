"""What a run asks of a pod, and the class by which a claim finds it, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from events.kinds import known_fields
from events.runtime.errors import Rejected

GPU_TIERS: Final = ("cpu", "8", "16", "24", "40", "80")  # GiB of GPU memory, smallest first
ANY_REGION: Final = "any"


class Requirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pod must have: memory of one GPU in GiB (0: none needed), and its region."""

    gpu_gib: Annotated[float, msgspec.Meta(ge=0, le=80)] = 0
    region: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9._-]{1,64}$")] = ANY_REGION


def read_requirements(raw: Mapping[str, Any]) -> Requirements:
    """Return checked requirements. Raises `Rejected` that names the field that is wrong."""
    try:
        return msgspec.convert(dict(raw), Requirements)
    except msgspec.ValidationError as error:
        raise Rejected(
            "invalid_requirements", f"requires: {error}{known_fields(error, Requirements)}"
        ) from error


def class_key(kind: str, requirements: Requirements) -> str:
    """Return `kind/gpu tier/region`: everything by which a claim may choose among runs."""
    return f"{kind}/{gpu_tier(requirements.gpu_gib)}/{requirements.region}"


def gpu_tier(gpu_gib: float) -> str:
    """Return the smallest tier that holds `gpu_gib` GiB."""
    if gpu_gib <= 0:
        return GPU_TIERS[0]
    return next(tier for tier in GPU_TIERS[1:] if gpu_gib <= float(tier))
