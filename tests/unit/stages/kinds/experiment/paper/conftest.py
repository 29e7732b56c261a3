"""What tests of the paper share: a press without TeX, and a reader of PDFs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pypandoc
import pypdf
import pytest

from events.kinds.declaring.fact import Fact
from stages.kinds.experiment.paper.recorder import Recorder
from stages.kinds.experiment.paper.renderer import Latexmk, PandocTypst, Renderer
from stages.kinds.experiment.paper.typesetter import Paper, write_paper
from stages.kinds.experiment.paper.words import write_words
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.numbers import Numbers, numbers_of
from stages.kinds.experiment.record.prose import Prose
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.testing import facts_of

Press = Callable[..., Paper]
Read = Callable[[Path], str]


class Deaf:
    """A reporter to whom everything may be said."""

    def say(self, fact: object) -> None:
        """Take a fact."""

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        """Take a file."""


@pytest.fixture(scope="session")
def pandoc() -> PandocTypst:
    """The renderer that needs no TeX, whatever is installed here."""
    return PandocTypst(pypandoc.get_pandoc_path())


@pytest.fixture(params=["pandoc and typst", "latexmk"])
def renderer(request: pytest.FixtureRequest, pandoc: PandocTypst) -> Renderer:
    """Each renderer in turn."""
    if request.param == pandoc.name:
        return pandoc
    program = shutil.which("latexmk")
    if program is None:
        pytest.skip("latexmk is not installed here; podfleet does without it")
    return Latexmk(program)


@pytest.fixture
def press(tmp_path: Path, pandoc: PandocTypst) -> Press:
    """Write the paper of a record: by the built-in author, without TeX, unless said otherwise."""

    def written(
        record: Record,
        *,
        folder: Path | None = None,
        prose: Prose | None = None,
        pictures: Sequence[Picture] = (),
        renderer: Renderer = pandoc,
        numbers: Numbers | None = None,
    ) -> Paper:
        place = folder or tmp_path
        place.mkdir(parents=True, exist_ok=True)
        numbers = numbers or numbers_of(record)
        words = prose or write_words(record, numbers)
        return write_paper(record, words, numbers, pictures, place, renderer)

    return written


@pytest.fixture(scope="session")
def read() -> Read:
    """Return the words of a PDF, parted by single spaces, words that were broken put together."""

    def words(pdf: Path) -> str:
        pages = pypdf.PdfReader(pdf).pages
        text = "\n".join(page.extract_text() for page in pages)
        whole = re.sub(r"(?<=\w)-\n(?=[a-z])", "", text).replace("\N{ZERO WIDTH SPACE}", "")
        return " ".join(whole.split())

    return words


@pytest.fixture(scope="session")
def witness_of() -> Callable[..., Recorder]:
    """Return somebody who heard what a run with this record says, or the facts that are named."""

    def heard(record: Record, facts: Sequence[Fact] | None = None) -> Recorder:
        witness = Recorder(Deaf())
        for fact in facts_of(record) if facts is None else facts:
            witness.say(fact)
        return witness

    return heard
