"""The client of ComfyUI against the double of its interface: real requests, and every way to lie."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from events.kinds import read_spec
from events.kinds.image import ImageSpec
from events.runtime.clock import SystemClock
from events.runtime.errors import Canceled, PipelineError
from stages.kinds.image.backend import Lap
from stages.kinds.image.comfyui import ComfyUI
from stages.kinds.image.pictures import read_picture
from testing.comfy_double.server import ComfyDouble

LAP = Lap(1, seed=7, steps=3)
NEVER = threading.Event()


def spec_of(**more: Any) -> ImageSpec:
    brief = {"prompt": "a lighthouse", "backend": "comfyui", "model": "tiny-sd.safetensors"}
    spec = read_spec("image", {**brief, "width": 40, "height": 32, "batch": 2, **more})
    assert isinstance(spec, ImageSpec)
    return spec


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if is_so():
            return
        NEVER.wait(0.01)
    raise AssertionError("it never came to that")


class Asked:
    """A client of a double, and what it said."""

    def __init__(self, url: str, **more: Any) -> None:
        self.said: list[str] = []
        self.shares: list[float] = []
        self.client = ComfyUI(
            url, spec_of(**more), "me", SystemClock(), self.said.append,
            poll_s=0.02, poll_beside_s=0.05, empty_s=0.6, silent_s=0.2, view_s=0.4,
        )  # fmt: skip

    def draws(self, lap: Lap = LAP) -> Any:
        return self.client.draw(lap, self.shares.append)

    def fails(self) -> PipelineError:
        with pytest.raises(PipelineError) as failed:
            self._prepares_and_draws()
        return failed.value

    def _prepares_and_draws(self) -> None:
        self.client.prepare()
        self.draws()


@contextmanager
def served(*faults: str, **more: Any) -> Iterator[tuple[ComfyDouble, Asked]]:
    with ComfyDouble(frozenset(faults)) as double:
        yield double, Asked(double.url, **more)


def test_pictures_are_made_and_fetched_and_made_again_they_are_told_as_cached() -> None:
    with served() as (double, asked):
        assert asked.client.prepare() == "ComfyUI double on cpu"
        drawn = asked.draws()
        again = asked.draws(replace(LAP, number=2))
        other = asked.draws(replace(LAP, seed=8))
    assert [read_picture(each).width for each in drawn.pictures] == [40, 40]
    assert (drawn.is_cached, again.is_cached, other.is_cached) == (False, True, False)
    assert drawn.pictures == again.pictures != other.pictures
    assert drawn.wall_s > 0
    assert asked.shares[-1] == 1.0
    assert all(0 < each <= 1 for each in asked.shares)
    sampler = double.taken[0]["3"]["inputs"]
    assert (sampler["seed"], sampler["steps"], sampler["sampler_name"]) == (7, 3, "euler")
    assert double.viewed[0] == {"filename": "podfleet_00001_.png", "subfolder": "", "type": "output"}


@pytest.mark.parametrize(
    "fault", ["late_outputs", "no_socket", "socket_closes", "socket_lies", "new_list"], ids=str
)
def test_what_is_only_slow_or_noise_makes_pictures_all_the_same(fault: str) -> None:
    with served(fault) as (_, asked):
        asked.client.prepare()
        assert len(asked.draws().pictures) == 2
    assert all(0 < each <= 1 for each in asked.shares)


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("flag_only", "IMAGE_FAILED", "says that it is done, and has 0 pictures, not 2"),
        ("fewer", "IMAGE_FAILED", "says that it is done, and has 1 pictures, not 2"),
        ("forgets", "IMAGE_FAILED", "has forgotten the workflow"),
        ("never", "IMAGE_TIMEOUT", r"not there after 1 s \(limit_s\)"),
        ("hangs", "IMAGE_TIMEOUT", r"not there after 1 s \(limit_s\)"),
        ("no_image", "IMAGE_FAILED", "no picture: neither PNG nor JPEG"),
        ("cut", "IMAGE_FAILED", "no picture: a PNG that is cut off"),
        ("wrong_size", "IMAGE_FAILED", "of 48×32 pixels, and 40×32 were asked for"),
        ("huge", "IMAGE_FAILED", "an answer of 1,073,741,824 bytes"),
        ("endless", "IMAGE_FAILED", "an answer of more than 4,204,544 bytes"),
        ("drip", "IMAGE_FAILED", "could not be fetched: it took more than 0.4 s"),
        ("traversal", "IMAGE_FAILED", "a picture outside of its folder: '../../etc', 'passwd'"),
        ("other_folder", "IMAGE_FAILED", "in none of its folders of outputs"),
        ("vanishes", "MISSING_CHECKPOINT", "no checkpoint 'tiny-sd.safetensors'; it has tiny-sd.safetensors"),
        ("node_errors", "IMAGE_REFUSED", r"\(400\): Return type mismatch .*received_type\(CLIP\)"),
        ("oom", "OUT_OF_MEMORY", "KSampler: torch.OutOfMemoryError: Allocation on device 0"),
        ("arch", "CUDA_UNSUPPORTED_ARCH", "no kernel image is available"),
        ("interrupted", "IMAGE_FAILED", "somebody stopped the workflow"),
        ("garbage", "IMAGE_FAILED", "answered what it may not: no JSON"),
        ("deep", "IMAGE_FAILED", "answered what it may not: no JSON"),
        ("no_id", "IMAGE_FAILED", "no id of the workflow"),
        ("errors", "IMAGE_UNREACHABLE", "history was answered with 500: 500: Internal Server Error"),
        ("unlisted", "IMAGE_UNREACHABLE", "object_info was answered with 500"),
        ("redirects", "IMAGE_FAILED", "could not be fetched: it was answered with 302"),
    ],
)
def test_each_lie_is_a_failure_that_says_what_it_was(fault: str, code: str, words: str) -> None:
    with served(fault, limit_s=1.0) as (double, asked):
        failed = asked.fails()
        until(lambda: not double.waiting)  # a lap that failed leaves nothing in the queue
    assert failed.code == code, failed
    assert failed.retryable == (fault in ("forgets", "interrupted", "errors", "unlisted"))
    with pytest.raises(PipelineError, match=words):
        raise failed


def test_a_checkpoint_that_is_not_there_is_told_with_those_that_are() -> None:
    names = [f"model-{number:02d}.safetensors" for number in range(30)] + ["x" * 5_000, "a\nb"]
    with ComfyDouble(checkpoints=names) as double:
        failed = Asked(double.url).fails()
    assert failed.code == "MISSING_CHECKPOINT"
    assert "it has a b, model-00.safetensors, " in failed.message
    assert "and 12 more" in failed.message
    assert len(failed.message) < 3_000
    assert "models/checkpoints" in failed.message


def test_a_server_that_is_not_there_is_told_with_its_address() -> None:
    failed = Asked("http://127.0.0.1:9").fails()
    assert (failed.code, failed.retryable) == ("IMAGE_UNREACHABLE", True)
    assert "does not answer at http://127.0.0.1:9: " in failed.message


@pytest.mark.parametrize("others", [0, 1], ids=["running", "waiting"])
def test_a_run_that_stops_takes_its_own_workflow_alone_out_of_the_queue(others: int) -> None:
    def stop(*_: object) -> None:
        raise Canceled("the run was canceled")

    with served("never") as (double, asked):
        other = Asked(double.url)
        other.client = replace(other.client, client="somebody else", spec=spec_of(limit_s=20.0))
        threads = [threading.Thread(target=other.fails)] * others
        for each in threads:
            each.start()
        until(lambda: len(double.taken) == others)

        def strike() -> None:
            until(lambda: double.waiting > others)
            os.kill(os.getpid(), signal.SIGUSR1)

        striker = threading.Thread(target=strike)
        before = signal.signal(signal.SIGUSR1, stop)
        striker.start()
        try:
            with pytest.raises(Canceled):
                asked.draws()
        finally:
            striker.join(20)
            signal.signal(signal.SIGUSR1, before)
        mine = f"00000000-0000-4000-8000-{others:012d}"
        assert {*double.interrupted, *double.deleted} == {mine}  # of both, where it just begins
        assert not others or double.deleted == [mine], "what runs is somebody else's"
        double.interrupted.append("00000000-0000-4000-8000-000000000000")  # and so the other one ends
        for each in threads:
            each.join(20)
        until(lambda: not double.waiting)
