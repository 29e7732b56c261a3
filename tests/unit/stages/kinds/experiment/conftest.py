"""What a pod offers to the experiments of these tests: programs run in forks, quickly."""

from __future__ import annotations

import functools
import io
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from stages.kinds.experiment import pipeline
from stages.kinds.experiment.judging import references
from stages.kinds.experiment.paper.renderer import Rendered
from stages.kinds.experiment.plots import drawing
from stages.kinds.experiment.plots.canvas import kept
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.record import Record, StageRecord
from stages.kinds.experiment.steps import experiment_run
from stages.ports import Tools
from stages.testing import ForkingSandbox, make_tools
from tests.fork_server import Program, start_program

SAVE = Figure.savefig


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools]:
    """Tools whose sandbox really runs programs; what it does not hold in is a matter of its own tests."""
    with ForkingSandbox(start=forked) as sandbox:
        yield make_tools(sandbox)


def forked(arguments: Sequence[str], orders: socket.socket) -> Program:
    """Start the sandbox by a fork of a process that has imported torch."""
    return start_program(arguments, env=os.environ, cwd=Path.cwd(), stdin=orders.makefile("rb"))


@functools.cache
def small_picture(form: str) -> bytes:
    """Return a picture that shows nothing, as a file of this form."""
    file = io.BytesIO()
    SAVE(Figure(figsize=(1, 1)), file, format=form)
    return file.getvalue()


@contextmanager
def painting(*forms: str) -> Iterator[None]:
    """Let figures be laid out, and painted in these forms alone, which is half of what they take."""

    def save(figure: Figure, path: Path, *, format: str, **how: Any) -> None:
        if format in forms:
            SAVE(figure, path, format=format, **how)
        else:
            path.write_bytes(small_picture(format))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save)
        yield


def small_node(record: Record, stage: StageRecord, place: int, folder: Path) -> Picture:
    """Keep a figure of a node that shows nothing."""
    return kept(Figure(), folder, f"nodes/{stage.name}-{place}", (["kind"], [["none"]]), "A node.")


@pytest.fixture(scope="module")
def small_pictures() -> Iterator[None]:
    """Let no figure be laid out or painted, and none of a node be drawn, which is most of a small experiment.

    plots/ has its tests.
    """
    with painting(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "get_layout_engine", lambda _: None)
        patch.setattr(drawing, "draw_node", small_node)
        yield


@pytest.fixture
def sketches(tmp_path: Path) -> Iterator[Path]:
    """A folder for figures of which the rows, the marks and the words count: only their SVG is painted."""
    with painting("svg"):
        yield tmp_path


@dataclass(frozen=True, slots=True)
class SmallPress:
    """A renderer that sets nothing: its paper is one empty page."""

    name: str = "nobody"

    def render(self, source: Path) -> Rendered:
        """Return the page."""
        pdf = source.with_suffix(".pdf")
        pdf.write_bytes(small_picture("pdf"))
        return Rendered(pdf, 1)


@pytest.fixture(scope="module")
def small_papers() -> Iterator[None]:
    """Let no paper be set, which starts four programs an attempt; paper/ and test_pipeline.py set them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "find_renderer", lambda _: SmallPress())
        yield


@pytest.fixture(scope="module")
def short_trainings() -> Iterator[None]:
    """Let programs of quick experiments, and the network beside them, learn for four epochs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(experiment_run.PRESETS, "quick", replace(experiment_run.PRESETS["quick"], epochs=4))
        patch.setattr(references, "EPOCHS", 4)
        yield
