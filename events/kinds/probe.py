"""Probes: the smoke test of a pod, pure."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from events.kinds.kind import Kind
from events.kinds.spec import Review, Spec

End = Literal[
    "completed", "exception", "retryable", "kill", "segfault", "out_of_memory", "cuda_out_of_memory",
    "hang", "deaf", "exit",
]  # fmt: skip


class ProbeSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The smoke test of a pod: sleeps, writes events and an artifact, and ends as requested."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=24 * 3600, description="Seconds to sleep.")] = 1.0
    events: Annotated[int, msgspec.Meta(ge=0, le=1_000_000, description="Number of events to write.")] = 10
    artifact_bytes: Annotated[
        int, msgspec.Meta(ge=0, le=1 << 30, description="Size of the artifact in bytes.")
    ] = 1024
    end: Annotated[End, msgspec.Meta(description="How the run ends.")] = "completed"
    review: Review = "none"


KIND: Final = Kind(
    name="probe",
    says="The smoke test of a pod: a short run that writes events and an artifact, and ends as requested.",
    spec=ProbeSpec,
    example={"seconds": 1, "events": 10},
    pipeline="stages.probe.pipeline",
)
