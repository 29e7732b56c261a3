"""What a lap of pictures takes and makes, whichever way they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from events.kinds.image import ImageSpec
from events.runtime.errors import PipelineError
from stages.kinds.image.pictures import NotAPicture, read_picture

PIXEL_BYTES_MAX: Final = 8  # four colours of two bytes, not packed
AROUND_BYTES_MAX: Final = 4 * 1024 * 1024  # a picture may have its workflow in it
WARM_UP_STEPS: Final = 1

Progress = Callable[[float], None]  # from 0 to 1; it may be called from any thread


@dataclass(frozen=True, slots=True)
class Lap:
    """One lap: its number from 1 on (0 warms up), the seed of its pictures, and its steps."""

    number: int
    seed: int
    steps: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """The pictures of a lap, how long they took, and whether they were there before."""

    pictures: Sequence[bytes] = field(repr=False)
    wall_s: float
    is_cached: bool = False


class Backend(Protocol):
    """Makes pictures."""

    def prepare(self) -> str:
        """Load what is needed; return a line that says what makes the pictures. Raises `PipelineError`."""
        ...

    def draw(self, lap: Lap, progress: Progress) -> Drawn:
        """Make the pictures of a lap. Raises `PipelineError`."""
        ...


def picture_bytes_max(spec: ImageSpec) -> int:
    """Return how many bytes a picture may have."""
    return spec.width * spec.height * PIXEL_BYTES_MAX + AROUND_BYTES_MAX


def late(spec: ImageSpec) -> PipelineError:
    """Return what is raised where a lap takes too long."""
    return PipelineError("IMAGE_TIMEOUT", f"the pictures were not there after {spec.limit_s:g} s (limit_s)")


def check_pictures(spec: ImageSpec, pictures: Sequence[bytes]) -> None:
    """Raise `PipelineError` where a lap did not make the pictures that it was to make."""
    if len(pictures) != spec.batch:
        raise PipelineError("IMAGE_FAILED", f"{len(pictures)} pictures were made, and {spec.batch} asked for")
    for each in pictures:
        try:
            found = read_picture(each)
        except NotAPicture as error:
            raise PipelineError("IMAGE_FAILED", f"what was made is no picture: {error}") from error
        if (found.width, found.height) != (spec.width, spec.height):
            made, asked = f"{found.width}×{found.height}", f"{spec.width}×{spec.height}"
            raise PipelineError("IMAGE_FAILED", f"a picture is of {made} pixels, and {asked} were asked for")
