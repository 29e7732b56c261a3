"""Writes the paper: its source, its numbers, its PDF, at the first level of detail that fits the page limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from stages.kinds.experiment.paper.assertions import supported_prose
from stages.kinds.experiment.paper.blocks import plain_text
from stages.kinds.experiment.paper.document import LEVELS, composed
from stages.kinds.experiment.paper.latex import latex_of
from stages.kinds.experiment.paper.renderer import Renderer
from stages.kinds.experiment.paper.words import problems_of, write_words
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.numbers import Numbers
from stages.kinds.experiment.record.prose import Prose
from stages.kinds.experiment.record.record import Record

PAGES_MAX: Final = 10  # the appendix counts
TEXT_MAX: Final = 60_000  # characters for reviewers


@dataclass(frozen=True, slots=True)
class Paper:
    """The written paper with the numbers it may state; `files` are everything that makes it, the PDF first."""

    title: str
    pdf: Path
    source: Path
    text: str
    pages: int
    level: str
    author: str
    numbers: Numbers
    files: tuple[Path, ...]
    warnings: tuple[str, ...] = ()


def name_author(numbers: Numbers, author: str) -> None:
    """Name the author of the words in the paper."""
    numbers.quote("author", author, "who wrote the words")


def write_paper(
    record: Record,
    prose: Prose,
    numbers: Numbers,
    pictures: Sequence[Picture],
    folder: Path,
    renderer: Renderer,
) -> Paper:
    """Write the paper into `folder`, below which the pictures lie.

    Words that type numbers, or refer to nothing, are refused: the built-in author's stand in their place.
    Sentences that nothing supports are removed, counted beside the author, and listed in `removed.json`.
    """
    warnings: list[str] = []
    generated = write_words(record, numbers)
    problems = problems_of(prose, numbers, len(record.works))
    if problems:
        warnings.append(
            f"the words of {prose.author} were refused ({problems[0]}); the built-in author wrote"
        )
        prose = generated
    prose, removed = supported_prose(record, prose, generated, numbers)
    author, lists = prose.author, []
    if removed:
        counted = "1 sentence removed: nothing supports it"
        if len(removed) > 1:
            counted = f"{len(removed)} sentences removed: nothing supports them"
        warnings.append(f"{counted}; removed.json lists what and why, such as: {removed[0].reason}")
        author = f"{author}; {counted}"
        lists.append(folder / "removed.json")
        lists[0].write_text(
            json.dumps([asdict(each) for each in removed], indent=1, ensure_ascii=False), "utf-8"
        )
    name_author(numbers, author)
    source, table = folder / "paper.tex", folder / "numbers.json"
    table.write_text(json.dumps(numbers.plain(), indent=1, ensure_ascii=False), encoding="utf-8")
    for level in LEVELS:
        document = composed(record, prose, numbers, pictures, level, folder)
        source.write_text(latex_of(document, numbers), encoding="utf-8")
        rendered = renderer.render(source)
        if rendered.pages <= PAGES_MAX:
            break
    else:
        warnings.append(
            f"the paper has {rendered.pages} pages, with the least detail; {PAGES_MAX} are allowed"
        )
    if level is not LEVELS[0]:
        warnings.append(f"the paper shows {level.name}, to fit {PAGES_MAX} pages")
    return Paper(
        title=numbers.text("title").replace("\N{ZERO WIDTH SPACE}", ""),
        pdf=rendered.pdf,
        source=source,
        text=plain_text(document, numbers, TEXT_MAX),
        pages=rendered.pages,
        level=level.name,
        author=author,
        numbers=numbers,
        files=(rendered.pdf, source, table, *lists, *rendered.made),
        warnings=(*warnings, *rendered.warnings),
    )
