"""The blocks of a paper: headings, paragraphs, tables, figures and listings; pure.

Every text is written with references (`{effect.mean}`), so that one paper has one meaning in every form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stages.kinds.experiment.record.numbers import Numbers

Align = Literal["left", "right", "wide"]


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a section; `numbered` unless it stands behind the paper."""

    text: str
    numbered: bool = True


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph; `quoted` where it is a foreign text."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    cells: tuple[str, ...]
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table; columns that are `wide` share the room that is left. `long` ones may go over pages."""

    label: str
    caption: str
    header: tuple[str, ...]
    align: tuple[Align, ...]
    rows: tuple[Row, ...]
    long: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture by its file beside the source; `width` is a share of the text's."""

    label: str
    path: Path
    caption: str
    width: float = 1.0


@dataclass(frozen=True, slots=True)
class Listing:
    """Program text, printed as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry of the list of references."""

    text: str
    url: str


Block = Heading | Paragraph | Table | Figure | Listing


@dataclass(frozen=True, slots=True)
class Document:
    """A whole paper before it has a form."""

    title: str
    byline: str
    verdict: str
    abstract: tuple[str, ...]
    blocks: tuple[Block, ...]
    references: tuple[Reference, ...]
    appendix: tuple[Block, ...]
    works: tuple[int, ...]


def plain_text(document: Document, numbers: Numbers, limit: int) -> str:
    """Return the paper as plain text of at most `limit` characters, for readers without eyes for layout."""
    cited = {place: number for number, place in enumerate(document.works, start=1)}

    def text(words: str) -> str:
        for place, number in cited.items():
            words = words.replace(f"{{work.{place}}}", f"[{number}]")
        return numbers.resolved(words).replace("\N{ZERO WIDTH SPACE}", "")

    parts = [text(document.title), text(document.byline), text(document.verdict), "Abstract"]
    parts += [text(each) for each in document.abstract]
    section = 0
    for block in document.blocks:
        if isinstance(block, Heading) and block.numbered:
            section += 1
            parts.append(f"{section}. {text(block.text)}")
        else:
            parts.append(_plain_block(block, text))
    if document.references:
        parts.append("References")
        parts += [
            f"[{number}] {text(each.text)} {text(each.url)}".rstrip()
            for number, each in enumerate(document.references, start=1)
        ]
    parts += [_plain_block(block, text) for block in document.appendix]
    whole = "\n\n".join(parts) + "\n"
    return whole if len(whole) <= limit else f"{whole[: limit - 20].rstrip()}\n[cut here]\n"


def _plain_block(block: Block, text: Callable[[str], str]) -> str:
    match block:
        case Heading(text=words):
            return text(words)
        case Paragraph(text=words, quoted=quoted):
            return f"> {text(words)}" if quoted else text(words)
        case Table():
            rows: Sequence[Sequence[str]] = (block.header, *(row.cells for row in block.rows))
            lines = [" | ".join(text(cell) for cell in row) for row in rows]
            return "\n".join((f"Table: {text(block.caption)}", *lines))
        case Figure(caption=caption):
            return f"Figure: {text(caption)}"
        case Listing(text=words):
            return words
