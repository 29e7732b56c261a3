"""Probes: the smoke test of a pod, pure.

Its headline numbers are known functions of its parameters, with noise if wanted, so that a study can be tried
without anything else: the least value is 0, at x = 1 and y = -2. With a radius of 1 at most it is 1.528, at
x = 0.447 and y = -0.894. The metric `value` begins above the headline number and comes down to it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from events.kinds.declaring.spec import Review, Spec
from events.kinds.kind import Kind
from events.kinds.results import ROWS_MAX, Column, ResultSet

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
    x: Annotated[float, msgspec.Meta(ge=-1e6, le=1e6, description="First parameter of the value.")] = 0.0
    y: Annotated[float, msgspec.Meta(ge=-1e6, le=1e6, description="Second parameter of the value.")] = 0.0
    noise: Annotated[
        float, msgspec.Meta(ge=0, le=1e6, description="Standard deviation of the noise of the value.")
    ] = 0.0
    prepare_s: Annotated[
        float, msgspec.Meta(ge=0, le=24 * 3600, description="Seconds to prepare, before the start of a race.")
    ] = 0.0
    results: Annotated[
        int, msgspec.Meta(ge=0, le=ROWS_MAX, description="Number of rows of results to record.")
    ] = 0
    review: Review = "none"


VALUE: Final = Column("value", direction="lower", format=".4g")
RADIUS: Final = Column("radius", format=".4g")  # how far x and y lie from zero
ROWS: Final = ResultSet(
    "rows",
    "Rows",
    (
        Column("number", format="d"),
        Column("value", direction="lower", format=".4g"),
        Column("seconds", unit="s", direction="lower", format=".3f"),
        Column("share", direction="higher", format=".1%"),
        Column("group", type="text"),
        Column("is_even", type="bool"),
    ),
)

KIND: Final = Kind(
    name="probe",
    says="The smoke test of a pod: a short run that writes events and an artifact, and ends as requested.",
    spec=ProbeSpec,
    example={"seconds": 1, "events": 10},
    pipeline="stages.kinds.probe.pipeline",
    results=(ROWS,),
    headline=(VALUE, RADIUS),
    prepares=True,
)
