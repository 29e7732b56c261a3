"""Images: make pictures from a text, lap after lap, and keep each; a first one warms up, unmeasured."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from events.kinds.image import LAPS, MEASURED, ImageSpec
from events.kinds.results import Value
from events.models.endpoints import SETTING, endpoints
from events.runtime.clock import SystemIds
from events.runtime.errors import PipelineError
from stages.context import Context, Stage
from stages.kinds.image.backend import WARM_UP_STEPS, Backend, Drawn, Lap

PREPARE: Final = "prepare"
DRAW: Final = "draw"
SHOW_EVERY_S: Final = 0.1
# A server keeps what it made before, and answers the same question at once: the next question is another one.
AGAIN_MAX: Final = 3
AGAIN_SEED: Final = 1_000_003


def run(context: Context) -> str:
    """Make the pictures. Raises `PipelineError`."""
    assert isinstance(context.spec, ImageSpec)
    return _Images(context, context.spec).run()


@dataclass(slots=True)
class _Images:
    """One attempt: it makes all pictures, whatever an earlier attempt made."""

    context: Context
    spec: ImageSpec
    rows: list[dict[str, float]] = field(default_factory=list)

    def run(self) -> str:
        """Make the pictures, and return the line that sums them up."""
        context, spec = self.context, self.spec
        with context.stage(PREPARE, index=1, total=2) as stage:
            stage.progress(0.0, f"loading {spec.model}")
            backend = self._backend()
            says = backend.prepare()
            context.log(says)
            stage.progress(0.5, "a picture that is not measured")
            backend.draw(Lap(0, self._seed(0), min(WARM_UP_STEPS, spec.steps)), lambda _: None)
        context.wait_for_start()
        with context.stage(DRAW, index=2, total=2) as stage:
            for number in range(1, spec.repeats + 1):
                self._lap(backend, stage, number)
        means = self._means()
        each_s, count = means["seconds_per_image"], spec.repeats * spec.batch
        return f"{count} pictures of {spec.width}×{spec.height}, {each_s:.3g} s each: {says}"

    def _backend(self) -> Backend:
        """Return what makes the pictures; what is heavy is imported when it is wanted, not in every child."""
        context, spec = self.context, self.spec
        if spec.backend == "comfyui":
            from stages.kinds.image.comfyui import ComfyUI  # noqa: PLC0415 - see above

            return ComfyUI(self._address(), spec, SystemIds().token(), context.clock, context.log)
        try:
            from stages.kinds.image.diffusion import Diffusion  # noqa: PLC0415 - see above
        except ImportError as error:
            raise PipelineError(
                "NOT_AVAILABLE",
                f"this pod has no diffusers ({error}): pip install 'podfleet[image]', beside torch",
                retryable=True,
            ) from error
        return Diffusion(spec, context.tools.variables, context.clock, context.log)

    def _address(self) -> str:
        """Return the address of the server, by the settings of the pod."""
        name = self.spec.backend
        found = endpoints(self.context.tools.variables).get(name)
        if found is None:
            raise PipelineError(
                "NOT_AVAILABLE",
                f"this pod lets runs use no server {name}: {SETTING}={name}=http://127.0.0.1:8188 would "
                "allow one at that address",
                retryable=True,
            )
        return found.url.rstrip("/")

    def _seed(self, number: int) -> int:
        """Return the seed of a lap; that of the warm-up is that of none."""
        return self.spec.seed + number - 1 if number else self.spec.seed + AGAIN_SEED // 2

    def _lap(self, backend: Backend, stage: Stage, number: int) -> None:
        lap, drawn = self._drawn(backend, stage, number)
        for index, each in enumerate(drawn.pictures, start=1):
            end = "png" if each.startswith(b"\x89PNG") else "jpg"
            path = self.context.workspace / f"image-{number}-{index}.{end}"
            path.write_bytes(each)
            self.context.keep(path)
        images = len(drawn.pictures)
        row = {
            "seconds_per_image": drawn.wall_s / images,
            "wall_s": drawn.wall_s,
            "steps_per_s": lap.steps * images / drawn.wall_s,
            "images": float(images),
        }
        self.rows.append(row)
        size = sum(map(len, drawn.pictures))
        values: dict[str, Value] = {"lap": number, **row, "seed": lap.seed, "bytes": size}
        self.context.result(LAPS.name, str(number), values, "done", f"image-{number}-1.{end}")
        self.context.summarize(self._means())
        each_s = row["seconds_per_image"]
        self.context.show(f"{images} pictures, {each_s:.3g} s each\n", number, progress=1.0, **row)

    def _drawn(self, backend: Backend, stage: Stage, number: int) -> tuple[Lap, Drawn]:
        """Make the pictures of a lap; those that were there before are made again from another seed."""
        laps = self.spec.repeats
        stage.progress((number - 1) / laps, f"lap {number} of {laps}")
        for again in range(AGAIN_MAX + 1):
            lap = Lap(number, self._seed(number) + again * AGAIN_SEED, self.spec.steps)
            drawn = backend.draw(lap, _Shown(self.context, number))
            if not drawn.is_cached:
                return lap, drawn
            self.context.log(f"the server had the pictures of seed {lap.seed} already: nothing was measured")
        raise PipelineError(
            "IMAGE_FAILED", f"the server had the pictures of {AGAIN_MAX + 1} seeds already; take another seed"
        )

    def _means(self) -> dict[str, float]:
        return {each.name: fmean(row[each.name] for row in self.rows) for each in MEASURED}


@dataclass(slots=True)
class _Shown:
    """Shows how far a lap is, so often and no more."""

    context: Context
    lap: int
    shown_s: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, share: float) -> None:
        now_s = self.context.clock.monotonic_s()
        with self.lock:
            if now_s - self.shown_s < SHOW_EVERY_S and share < 1.0:
                return
            self.shown_s = now_s
        self.context.show("", self.lap, progress=share)
