"""Images: pictures are made from a text, lap after lap, and how long that takes; pure.

The rows of a run are its laps; its headline numbers are the means of the same columns over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from events.kinds.declaring.spec import TITLE_MAX, Seconds, Spec
from events.kinds.kind import Kind
from events.kinds.results import Column, ResultSet

TINY: Final = "tiny"  # a model that a run makes by itself
SIDE_MAX: Final = 4_096
PIXELS_MAX: Final = 1 << 26  # of all pictures of a lap
BATCH_MAX: Final = 16
REPEATS_MAX: Final = 50
SEED_MAX: Final = (1 << 53) - 1  # what every reader of JSON keeps whole

Backend = Literal["comfyui", "diffusers"]
# These names mean the same to ComfyUI and to diffusers.
Sampler = Literal["ddim", "dpmpp_2m", "euler", "euler_ancestral", "heun"]
Text = Annotated[str, msgspec.Meta(max_length=2_000)]


class ImageSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes pictures, of which size and text, how many at once, and how often."""

    prompt: Annotated[
        str, msgspec.Meta(min_length=1, max_length=2_000, description="What the pictures show.")
    ]
    negative_prompt: Annotated[Text, msgspec.Meta(description="What they do not show.")] = ""
    backend: Annotated[
        Backend,
        msgspec.Meta(
            description="What makes them: the library diffusers in the run, or a ComfyUI server of the pod."
        ),
    ] = "diffusers"
    model: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=300,
            description="A checkpoint of the server; or for diffusers a folder in MODEL_PATH, an id of the "
            f"hub, or `{TINY}`, a model with random weights that needs no file.",
        ),
    ] = TINY
    width: Annotated[int, msgspec.Meta(ge=32, le=SIDE_MAX, multiple_of=8, description="Pixels.")] = 512
    height: Annotated[int, msgspec.Meta(ge=32, le=SIDE_MAX, multiple_of=8, description="Pixels.")] = 512
    steps: Annotated[int, msgspec.Meta(ge=1, le=1_000, description="Steps of the sampler.")] = 20
    cfg: Annotated[
        float, msgspec.Meta(ge=0, le=100, description="How strictly the text is followed (guidance scale).")
    ] = 7.0
    sampler: Annotated[Sampler, msgspec.Meta(description="How noise becomes a picture.")] = "euler"
    seed: Annotated[
        int, msgspec.Meta(ge=0, le=SEED_MAX, description="Of the first lap; each further lap has the next.")
    ] = 0
    batch: Annotated[int, msgspec.Meta(ge=1, le=BATCH_MAX, description="Pictures that are made at once.")] = 1
    repeats: Annotated[int, msgspec.Meta(ge=1, le=REPEATS_MAX, description="Laps that are measured.")] = 3
    limit_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds of a lap.")] = 600.0
    offline: Annotated[
        bool, msgspec.Meta(description="Whether only models that are on the pod are loaded.")
    ] = False


def _problems(spec: ImageSpec) -> Iterator[str]:
    if spec.backend == "comfyui" and spec.model == TINY:
        yield "model: name a checkpoint of the ComfyUI server; a wrong name is answered with those there are"
    if spec.backend == "diffusers" and not _is_name(spec.model):
        yield "model: a folder in MODEL_PATH, or an id of the hub: no other path, and no part '..'"
    if spec.width * spec.height * spec.batch > PIXELS_MAX:
        yield f"batch: the pictures of a lap have {PIXELS_MAX:,} pixels at most: make them smaller, or fewer"


def _is_name(model: str) -> bool:
    return model.isprintable() and not {"", ".", ".."} & {*model.split("/")} and "\\" not in model


def _check(spec: ImageSpec) -> str | None:
    return next(_problems(spec), None)


def _weights(spec: ImageSpec) -> str:
    return "" if spec.model == TINY else spec.model


def _title(spec: ImageSpec) -> str:
    size = f"{spec.width}×{spec.height}, {spec.steps} steps"
    return f"{spec.model} by {spec.backend}: {size}: {' '.join(spec.prompt.split())}"[:TITLE_MAX]


MEASURED: Final = (
    Column("seconds_per_image", unit="s", direction="lower", format=".4g"),
    Column("wall_s", unit="s", direction="lower", format=".4g"),
    Column("steps_per_s", unit="1/s", direction="higher", format=",.4g"),
    Column("images", format=".4g"),
)
LAPS: Final = ResultSet(
    "laps",
    "Laps",
    (Column("lap", format="d"), *MEASURED, Column("seed", format="d"), Column("bytes", format=",d")),
)

KIND: Final = Kind(
    name="image",
    says="Makes pictures from a text, and measures how long each takes.",
    spec=ImageSpec,
    example={"prompt": "a lighthouse at dusk", "width": 64, "height": 64, "steps": 4},
    pipeline="stages.kinds.image.pipeline",
    title=_title,
    check=_check,
    stages=("prepare", "draw"),
    needs=("aiohttp",),
    uses=frozenset({"gpu"}),
    codes={
        "MISSING_CHECKPOINT": "Name a checkpoint that the pod has (the message lists them), or put it there.",
        "IMAGE_TIMEOUT": "Give a lap more time (limit_s), or fewer steps, fewer pixels or a smaller batch.",
        "IMAGE_REFUSED": "The server did not take the workflow: the message has its words; update it.",
        "IMAGE_FAILED": "Look at the log of the server; the message has the words that it answered.",
        "IMAGE_UNREACHABLE": "Start the server, or correct its address in PODFLEET_ENDPOINTS of the pod.",
    },
    results=(LAPS,),
    headline=MEASURED,
    labels={"model": "model", "backend": "backend"},
    prepares=True,
    weights=_weights,
)
