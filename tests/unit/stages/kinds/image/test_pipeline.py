"""Runs of images: by a real pipeline of diffusers with random weights, and by the double of a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from events.catalog import ResultRecorded, RunSummarized
from events.kinds import KINDS, read_spec, title_of
from events.kinds.results import Value
from events.runtime.errors import PipelineError, Rejected
from stages.kinds.image.pictures import Picture, read_picture
from stages.kinds.image.pipeline import run
from stages.testing import RecordingLiveView, RecordingReporter, make_context, make_tools
from testing.comfy_double.server import ComfyDouble

BRIEF = {"prompt": "a lighthouse", "width": 32, "height": 40, "steps": 2, "repeats": 1}
MEASURED = ["seconds_per_image", "wall_s", "steps_per_s", "images"]


class Images:
    """One attempt at a run, and what it said."""

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None, **more: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.reporter, self.live = RecordingReporter(), RecordingLiveView()
        tools = make_tools(variables=variables or {})
        spec = read_spec("image", {**BRIEF, **more})
        self.context = make_context(spec, folder, reporter=self.reporter, live=self.live, tools=tools)

    def run(self) -> str:
        return run(self.context)

    def fails(self) -> PipelineError:
        with pytest.raises(PipelineError) as failed:
            self.run()
        return failed.value

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        return [each.values for each in self.reporter.of(ResultRecorded)]

    @property
    def summary(self) -> Mapping[str, Value]:
        found: dict[str, Value] = {}
        for each in self.reporter.of(RunSummarized):
            found |= each.values
        return found

    @property
    def pictures(self) -> Mapping[str, bytes]:
        return {each.name: each.path.read_bytes() for each in self.reporter.files}


@pytest.mark.parametrize("sampler", ["euler_ancestral", "heun"])
def test_a_pipeline_of_diffusers_really_denoises_on_a_processor(tmp_path: Path, sampler: str) -> None:
    images = Images(tmp_path, batch=2, repeats=2, sampler=sampler)

    line = images.run()

    assert line.startswith("4 pictures of 32×40, ")
    assert "TinyPipeline" in line
    assert [*images.pictures] == ["image-1-1.png", "image-1-2.png", "image-2-1.png", "image-2-2.png"]
    assert len({*images.pictures.values()}) == 4, "each has a seed of its own"
    assert {read_picture(each) for each in images.pictures.values()} == {Picture("png", 32, 40)}
    assert [(row["lap"], row["seed"], row["images"]) for row in images.rows] == [(1, 0, 2), (2, 1, 2)]
    for row in images.rows:
        assert row["seconds_per_image"] == pytest.approx(row["wall_s"] / 2)
        assert row["steps_per_s"] == pytest.approx(4 / row["wall_s"])
    means = {name: fmean(row[name] for row in images.rows) for name in MEASURED}
    assert images.summary == pytest.approx(means)
    assert [piece.values["progress"] for piece in images.live.pieces if piece.lap == 1][-1] == 1.0
    assert images.live.text(2).endswith("s each\n")


def test_a_picture_follows_from_the_text_and_the_seed_alone(tmp_path: Path) -> None:
    def made(name: str, **more: Any) -> bytes:
        images = Images(tmp_path / name, **more)
        images.run()
        return images.pictures["image-1-1.png"]

    first = made("first")
    assert made("again") == first
    assert made("text", prompt="a forest") != first
    assert made("against", negative_prompt="people") != first
    assert made("strict", cfg=1.0) != first
    assert made("seed", seed=1) != first
    assert made("sampler", sampler="dpmpp_2m") != made("other sampler", sampler="ddim") != first


def test_a_lap_of_diffusers_ends_at_its_limit(tmp_path: Path) -> None:
    failed = Images(tmp_path, steps=1_000, limit_s=0.05).fails()

    assert (failed.code, failed.retryable) == ("IMAGE_TIMEOUT", False)
    assert "0.05 s" in failed.message


def test_a_model_that_is_not_there_is_no_picture(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "mine"
    folder.mkdir(parents=True)
    (folder / "model_index.json").write_text('{"_class_name": "NoSuchPipeline"}')
    variables = {"MODEL_PATH": str(folder.parent)}

    strange = Images(tmp_path / "a", variables, model="mine").fails()
    absent = Images(tmp_path / "b", variables, model="nobody/nothing", offline=True).fails()

    assert strange.code in ("MISSING_CHECKPOINT", "NOT_AVAILABLE")
    assert absent.code in ("MISSING_CHECKPOINT", "NOT_AVAILABLE")


def test_a_server_of_the_pod_makes_the_pictures_and_what_it_had_is_made_anew(tmp_path: Path) -> None:
    with ComfyDouble() as double:
        variables = {"PODFLEET_ENDPOINTS": f"comfyui={double.url}/"}
        brief = {"backend": "comfyui", "model": "tiny-sd.safetensors", "batch": 2, "repeats": 2}
        first, second = Images(tmp_path / "a", variables, **brief), Images(tmp_path / "b", variables, **brief)
        assert "ComfyUI double on cpu" in first.run()
        second.run()
        third = Images(tmp_path / "c", variables, **brief, steps=5)
        double.checkpoints = ("another.safetensors",)
        failed = third.fails()
    assert [row["seed"] for row in first.rows] == [0, 1]
    assert [row["seed"] for row in second.rows] == [1_000_003, 1_000_004]
    assert {*first.pictures} == {*second.pictures}
    assert not {*first.pictures.values()} & {*second.pictures.values()}
    assert (failed.code, third.rows) == ("MISSING_CHECKPOINT", [])


@pytest.mark.parametrize("setting", ["", "ollama=http://127.0.0.1:1", "comfyui=ftp://127.0.0.1"])
def test_a_server_that_the_operator_does_not_name_is_not_used(tmp_path: Path, setting: str) -> None:
    failed = Images(tmp_path, {"PODFLEET_ENDPOINTS": setting}, backend="comfyui", model="x").fails()

    assert (failed.code, failed.retryable) == ("NOT_AVAILABLE", True)
    assert "PODFLEET_ENDPOINTS=comfyui=http://127.0.0.1:8188 would" in failed.message


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"prompt": ""}, "prompt"),
        ({"width": 33}, "width"),
        ({"sampler": "magic"}, "sampler"),
        ({"backend": "comfyui"}, "name a checkpoint"),
        ({"model": "../secrets"}, "no part '..'"),
        ({"model": "/etc"}, "no other path"),
        ({"model": "a\nb"}, "no other path"),
        ({"width": 4096, "height": 4096, "batch": 8}, "67,108,864 pixels"),
    ],
)
def test_a_specification_that_cannot_be_made_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match="spec: ") as refused:
        read_spec("image", {**BRIEF, **wrong})
    assert words in refused.value.message


def test_laps_have_the_columns_of_the_headline() -> None:
    kind = KINDS["image"]
    (laps,) = kind.results
    assert [each for each in laps.columns if each in kind.headline] == list(kind.headline)
    assert [each.name for each in kind.headline] == MEASURED
    assert title_of("image", read_spec("image", BRIEF)) == "tiny by diffusers: 32×40, 2 steps: a lighthouse"
