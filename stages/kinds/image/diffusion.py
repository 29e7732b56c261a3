"""Pictures of a diffusers pipeline in this process: a model of the pod or of the hub, or a tiny one.

Law: no code of a model is run: its folder names classes of the libraries, and nothing of its own is trusted.
"""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import diffusers
import torch

from events.kinds.image import TINY, ImageSpec
from events.runtime.clock import Clock
from events.runtime.errors import PipelineError
from stages.kinds.image.backend import Drawn, Lap, Progress, check_pictures, late
from stages.kinds.image.tiny import tiny_pipeline
from stages.ports import Say

SCHEDULERS: Final[Mapping[str, str]] = {
    "ddim": "DDIMScheduler",
    "dpmpp_2m": "DPMSolverMultistepScheduler",
    "euler": "EulerDiscreteScheduler",
    "euler_ancestral": "EulerAncestralDiscreteScheduler",
    "heun": "HeunDiscreteScheduler",
}
INDEX: Final = "model_index.json"  # what makes a folder one of diffusers
WORDS_CHARS: Final = 500


class _Late(Exception):
    """A step ended after the limit."""


@dataclass(slots=True)
class Diffusion:
    """A pipeline of diffusers; `variables` are those of the run."""

    spec: ImageSpec
    variables: Mapping[str, str] = field(repr=False)
    clock: Clock
    say: Say
    pipeline: Any = None

    def prepare(self) -> str:
        """Load the model. Raises `PipelineError`."""
        with _quiet():
            return self._prepared()

    def _prepared(self) -> str:
        diffusers.utils.logging.set_verbosity_error()
        diffusers.utils.logging.disable_progress_bar()
        if self.spec.model == TINY:
            torch.set_num_threads(
                1
            )  # for what is so small, threads wait for each other longer than they work
        device = "cuda" if torch.cuda.is_available() else "cpu"
        loaded = tiny_pipeline() if self.spec.model == TINY else self._loaded(device)
        self.pipeline = loaded.to(device)
        self.pipeline.set_progress_bar_config(disable=True)
        self._take_sampler()
        name = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
        return f"diffusers {diffusers.__version__}, {type(self.pipeline).__name__} on {name}"

    def draw(self, lap: Lap, progress: Progress) -> Drawn:
        """Make the pictures of a lap. Raises `PipelineError`."""
        spec, begun_s = self.spec, self.clock.monotonic_s()

        def after_step(_: object, step: int, __: object, values: dict[str, Any]) -> dict[str, Any]:
            progress(min(1.0, (step + 1) / lap.steps))
            if self.clock.monotonic_s() - begun_s > spec.limit_s:
                raise _Late
            return values

        asked = {
            "prompt": spec.prompt,
            "negative_prompt": spec.negative_prompt,
            "width": spec.width,
            "height": spec.height,
            "num_inference_steps": lap.steps,
            "guidance_scale": spec.cfg,
            "num_images_per_prompt": spec.batch,
            "generator": torch.Generator().manual_seed(lap.seed),
            "output_type": "pil",
            "callback_on_step_end": after_step,
        }
        try:
            with _quiet():
                made = self.pipeline(**self._taken(asked)).images
        except _Late:
            raise late(spec) from None
        wall_s = self.clock.monotonic_s() - begun_s
        pictures = [_as_png(each) for each in made]
        check_pictures(spec, pictures)
        return Drawn(pictures, wall_s)

    def _taken(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what this pipeline takes: not each has a negative prompt."""
        takes = inspect.signature(self.pipeline.__call__).parameters
        return {name: value for name, value in asked.items() if name in takes}

    def _loaded(self, device: str) -> Any:
        model = self._place()
        try:
            return diffusers.AutoPipelineForText2Image.from_pretrained(
                model,
                torch_dtype=torch.float16 if device == "cuda" else torch.float32,
                use_safetensors=True,
                local_files_only=self.spec.offline or isinstance(model, Path),
            )
        except ImportError as error:
            words = " ".join(str(error).split())[:WORDS_CHARS]
            raise PipelineError(
                "NOT_AVAILABLE",
                f"models like this need a package that this pod lacks: pip install transformers. {words}",
                retryable=True,
            ) from error
        except (OSError, ValueError) as error:
            words = " ".join(str(error).split())[:WORDS_CHARS]
            raise PipelineError(
                "MISSING_CHECKPOINT",
                f"{self.spec.model!r} is no model of diffusers that this pod has or may fetch: {words}",
            ) from error

    def _place(self) -> Path | str:
        """Return the folder of the model in MODEL_PATH, else its id."""
        at = self.variables.get("MODEL_PATH", "").strip()
        folder = Path(at, self.spec.model)
        return folder if at and (folder / INDEX).is_file() else self.spec.model

    def _take_sampler(self) -> None:
        """Let the pipeline sample as it was asked to, where its model can."""
        wanted, own = SCHEDULERS[self.spec.sampler], self.pipeline.scheduler
        compatible = {each.__name__: each for each in getattr(own, "compatibles", ())}
        if wanted in compatible:
            self.pipeline.scheduler = compatible[wanted].from_config(own.config)
        elif type(own).__name__ != wanted:
            self.say(
                f"the model has a sampler of its own, {type(own).__name__}, which {self.spec.sampler} is not"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the libraries warn each other of out of the log of the run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _as_png(picture: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()
