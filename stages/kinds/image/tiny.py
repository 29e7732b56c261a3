"""A tiny pipeline of diffusers with random weights: all that a large one does, in a second on a processor.

Its pictures are coloured noise, the same for the same seed and text. It has no file, and needs no network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Final

import torch
from diffusers import AutoencoderKL, DDIMScheduler, DiffusionPipeline, UNet2DConditionModel
from diffusers.image_processor import VaeImageProcessor
from diffusers.pipelines.pipeline_utils import ImagePipelineOutput

SEED: Final = 20_260
WIDTH: Final = 32  # of what it knows of a character of the text
LENGTH: Final = 64  # bytes of the text that it reads
SHRINKS: Final = 8  # how many pixels become one of what it denoises

AfterStep = Callable[[Any, int, Any, dict[str, Any]], dict[str, Any]]


class Words(torch.nn.Module):
    """Reads the bytes of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = torch.nn.Embedding(257, WIDTH)
        self.places = torch.nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True)

    @property
    def dtype(self) -> torch.dtype:
        """Return the type of its weights, which a pipeline asks each of its parts for."""
        return self.places.dtype

    def forward(self, texts: Sequence[str]) -> torch.Tensor:
        rows = [[*text.encode()[:LENGTH], *[256] * LENGTH][:LENGTH] for text in texts]
        read: torch.Tensor = self.layer(
            self.letters(torch.tensor(rows, device=self.places.device)) + self.places
        )
        return read


class TinyPipeline(DiffusionPipeline):  # type: ignore[misc]  # what it inherits has no types
    """Denoises by a text and against another, as pipelines of diffusers do, and decodes what is left."""

    def __init__(self, unet: Any, vae: Any, words: Words, scheduler: Any) -> None:
        super().__init__()
        self.register_modules(unet=unet, vae=vae, words=words, scheduler=scheduler)
        self.images = VaeImageProcessor(vae_scale_factor=SHRINKS)

    @torch.inference_mode()
    def __call__(
        self,
        prompt: str,
        negative_prompt: str,
        width: int,
        height: int,
        num_inference_steps: int,
        guidance_scale: float,
        num_images_per_prompt: int,
        generator: torch.Generator,
        output_type: str,
        callback_on_step_end: AfterStep,
    ) -> ImagePipelineOutput:
        """Return the pictures; they follow from the generator's seed."""
        device, count = self.unet.device, num_images_per_prompt
        self.scheduler.set_timesteps(num_inference_steps, device=device)
        shape = (count, self.unet.config.in_channels, height // SHRINKS, width // SHRINKS)
        latents = torch.randn(shape, generator=generator).to(device) * self.scheduler.init_noise_sigma
        # only some samplers add noise
        noise = {"generator": generator} if "generator" in signature(self.scheduler.step).parameters else {}
        texts = self.words([negative_prompt] * count + [prompt] * count)
        for step, at in enumerate(self.progress_bar(self.scheduler.timesteps)):
            both = self.scheduler.scale_model_input(torch.cat([latents, latents]), at)
            against, by = self.unet(both, at, encoder_hidden_states=texts).sample.chunk(2)
            guess = against + guidance_scale * (by - against)
            latents = self.scheduler.step(guess, at, latents, **noise).prev_sample
            callback_on_step_end(self, step, at, {})
        decoded = self.vae.decode(latents / self.vae.config.scaling_factor).sample
        return ImagePipelineOutput(images=self.images.postprocess(decoded, output_type=output_type))


def tiny_pipeline() -> TinyPipeline:
    """Return the pipeline; it is the same each time."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(SEED)
        unet = UNet2DConditionModel(
            sample_size=8,
            block_out_channels=(32, 64),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=WIDTH,
            attention_head_dim=8,
            norm_num_groups=8,
        )
        vae = AutoencoderKL(
            block_out_channels=(16, 16, 32, 32),
            layers_per_block=1,
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            norm_num_groups=8,
        )
        words = Words()
    # of a model that has learnt nothing, its guess of the noise would leave noise; this one ends in bounds
    scheduler = DDIMScheduler(prediction_type="v_prediction")
    return TinyPipeline(unet.eval(), vae.eval(), words.eval(), scheduler)
