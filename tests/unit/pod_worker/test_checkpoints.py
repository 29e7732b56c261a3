"""The child waits until a checkpoint is safe, but for no outage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from events.delivery.pipe import Checkpoint, Kept, encode
from events.files.checkpoints import decode_manifest
from events.files.paths import BadPath
from events.testing import ManualClock
from pod_worker.child.checkpoints import SAFE_WAIT_S, ChildCheckpoints


class Parent:
    """Takes checkpoints and answers them, or not."""

    def __init__(self) -> None:
        self.taken: list[Checkpoint] = []
        self.answer: Callable[[Checkpoint], Kept | None] = lambda checkpoint: Kept(checkpoint.number)
        self.child: ChildCheckpoints | None = None

    def send(self, checkpoint: Checkpoint) -> None:
        encode(checkpoint)  # what goes through a pipe
        self.taken.append(checkpoint)
        word = self.answer(checkpoint)
        if word is not None and self.child is not None:
            self.child.hear(word)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def parent() -> Parent:
    return Parent()


@pytest.fixture
def child(parent: Parent, clock: ManualClock, tmp_path: Path) -> ChildCheckpoints:
    parent.child = ChildCheckpoints(
        run_id="r", attempt=2, folder=tmp_path / "out", found=tmp_path / "in", send=parent.send, clock=clock
    )
    return parent.child


def test_a_manifest_names_the_state_and_every_file(
    child: ChildCheckpoints, parent: Parent, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(b"image")
    assert child.keep("plots", {"figures": 1}, {"a.png": tmp_path / "a.png"}) is None
    (sent,) = parent.taken
    assert [each.name for each in sent.files] == [
        "checkpoints/plots/1/a.png",
        "checkpoints/plots/manifest.json",
    ]
    manifest = decode_manifest(Path(sent.files[-1].path).read_bytes())
    assert (manifest.name, manifest.attempt, manifest.state) == ("plots", 2, {"figures": 1})
    assert (manifest.files[0].name, manifest.files[0].size) == ("a.png", 5)


def test_what_was_kept_can_be_restored_by_the_next(
    child: ChildCheckpoints, parent: Parent, tmp_path: Path
) -> None:
    child.keep("Stage_1", {"best": 0.5}, {})
    folder = tmp_path / "in" / "Stage_1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(Path(parent.taken[0].files[-1].path).read_bytes())
    found = child.restored("Stage_1")
    assert found is not None
    assert (found.attempt, found.state, found.files, found.pods) == (2, {"best": 0.5}, {}, ())
    child.pods_before = {"Stage_1": ["alpha", ""], "Stage_2": ["beta"]}
    assert replace(found, pods=("alpha", "")) == child.restored("Stage_1")
    other = replace(child, run_id="its retry").restored("Stage_1")
    assert other is not None
    assert other.pods == (), "who made another run's is not told"
    assert found.from_run is None
    assert child.restored("Stage_2") is None


def test_what_another_run_left_is_told_from_what_this_one_left(
    child: ChildCheckpoints, parent: Parent, tmp_path: Path
) -> None:
    child.keep("Stage_1", {}, {})
    folder = tmp_path / "in" / "Stage_1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(Path(parent.taken[0].files[-1].path).read_bytes())
    found = replace(child, run_id="its retry").restored("Stage_1")
    assert found is not None
    assert found.from_run == "r"


def test_an_outage_costs_one_wait_and_no_more_until_an_answer_comes(
    child: ChildCheckpoints, parent: Parent, clock: ManualClock
) -> None:
    parent.answer = lambda checkpoint: None
    assert "do not answer" in (child.keep("s", {}, {}) or "")
    assert clock.monotonic_s() == pytest.approx(SAFE_WAIT_S)
    for _ in range(5):
        assert child.keep("s", {}, {}) is not None
    assert clock.monotonic_s() == pytest.approx(SAFE_WAIT_S)
    child.hear(Kept(6))
    parent.answer = lambda checkpoint: Kept(checkpoint.number)
    assert child.keep("s", {}, {}) is None


def test_a_checkpoint_that_was_refused_says_why(child: ChildCheckpoints, parent: Parent) -> None:
    parent.answer = lambda checkpoint: Kept(checkpoint.number, "the disk is full")
    assert child.keep("s", {}, {}) == "the disk is full"


def test_what_lies_there_and_is_no_manifest_is_none(child: ChildCheckpoints, tmp_path: Path) -> None:
    folder, outside = tmp_path / "in" / "Stage_1", tmp_path / "outside"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(b"{}")
    assert child.restored("Stage_1") is None
    outside.mkdir()
    (outside / "manifest.json").write_bytes(b"{}")
    (tmp_path / "in" / "linked").symlink_to(outside)
    with pytest.raises(OSError, match=r"linked/manifest\.json|link"):
        child.restored("linked")
    with pytest.raises(BadPath):
        child.restored("Stage_1/../Stage_1")
    with pytest.raises(BadPath):
        child.restored("in/Stage_1")
