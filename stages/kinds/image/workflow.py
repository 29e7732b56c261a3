"""The workflow of a lap as ComfyUI takes it: a graph of its own nodes, each under a number; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from events.kinds.image import ImageSpec
from stages.kinds.image.backend import Lap

LOADER: Final = "CheckpointLoaderSimple"
CHECKPOINT: Final = "ckpt_name"  # its only input
SAMPLER: Final = "3"
CHECKPOINTS: Final = "4"
SAVED: Final = "9"


def workflow(spec: ImageSpec, lap: Lap) -> Mapping[str, Any]:
    """Return the graph of a lap."""
    return {
        SAMPLER: _node(
            "KSampler",
            seed=lap.seed,
            steps=lap.steps,
            cfg=spec.cfg,
            sampler_name=spec.sampler,
            scheduler="normal",
            denoise=1.0,
            model=[CHECKPOINTS, 0],
            positive=["6", 0],
            negative=["7", 0],
            latent_image=["5", 0],
        ),
        CHECKPOINTS: _node(LOADER, ckpt_name=spec.model),
        "5": _node("EmptyLatentImage", width=spec.width, height=spec.height, batch_size=spec.batch),
        "6": _node("CLIPTextEncode", text=spec.prompt, clip=[CHECKPOINTS, 1]),
        "7": _node("CLIPTextEncode", text=spec.negative_prompt, clip=[CHECKPOINTS, 1]),
        "8": _node("VAEDecode", samples=[SAMPLER, 0], vae=[CHECKPOINTS, 2]),
        SAVED: _node("SaveImage", filename_prefix="podfleet", images=["8", 0]),
    }


def _node(kind: str, **inputs: Any) -> Mapping[str, Any]:
    return {"class_type": kind, "inputs": inputs}
