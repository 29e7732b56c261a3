"""The LaTeX form: whatever was written stays text, and every number carries its key."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pypandoc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.kinds.experiment.paper import latex
from stages.kinds.experiment.paper.blocks import Document, Listing, Paragraph, Row, Table
from stages.kinds.experiment.paper.document import LEVELS, composed
from stages.kinds.experiment.paper.latex import escaped, latex_of, verbatim
from stages.kinds.experiment.paper.renderer import PandocTypst, for_pandoc
from stages.kinds.experiment.paper.words import write_words
from stages.kinds.experiment.record.numbers import numbers_of
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.testing import HOSTILE, make_record

SIGNS = "".join(map(chr, range(33, 127))) + (
    "–—…“”‘’×±≤≥→≈·°µ∞αβγδεηθκλμξπρστφχψωΓΔΘΛΠΣΦΨΩäöüßéèñçøåłőřšž"  # noqa: RUF001
)
KNOWN = (*latex._ESCAPES.values(), *latex._GREEK.values())
OURS = {name for each in KNOWN for name in re.findall(r"[A-Za-z]{2,}", each)} | {"uni"}


def written(record: Record) -> str:
    numbers = numbers_of(record)
    numbers.quote("author", "nobody", "a test")
    prose = write_words(record, numbers)
    return latex_of(composed(record, prose, numbers, (), LEVELS[0], Path()), numbers)


@given(text=st.text(max_size=60) | st.text(alphabet="\\{}[]%&#$~^_<>|'\"`-!?,\n\0 ab1", max_size=60))
def test_no_text_brings_about_a_command_a_comment_or_an_unpaired_brace(text: str) -> None:
    tex = escaped(text)
    assert set(re.findall(r"\\([A-Za-z]+)", tex)) <= OURS
    bare = re.sub(r"\\[^A-Za-z]", "", tex)
    assert not re.search(r"[%#$&~^\"<>|`]", bare.replace("~", "", text.count("\N{NO-BREAK SPACE}")))
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"(?<!\{)[\[\]]|[\[\]](?!\})", bare)
    assert all(char.isprintable() for char in tex)


@given(text=st.text(max_size=200) | st.text(alphabet="\\end{verbatim}\n\t ", max_size=80))
def test_no_program_ends_the_listing_it_stands_in(text: str) -> None:
    listing = verbatim(text + r"\end{verbatim}" + text)
    assert r"\end" not in listing
    assert all(char == "\n" or (char.isascii() and char.isprintable()) for char in listing)


ENDS = [
    r"\end{verbatim}", r"\end {verbatim}", "\\end\n{verbatim}", "\\end\t{verbatim}", "\\end%\n{verbatim}",
    "\\end%x\n  \n{verbatim}", "\\end\v{verbatim}", "\\end\u2028{verbatim}", "\\e\x00nd{verbatim}",
    r"^^5cend{verbatim}",
    r"\e^^6ed{verbatim}", r"\end{verb^^61tim}", r"\endverbatim", r"\csname end\endcsname{verbatim}",
    r"\\end{verbatim}",
    r"\begin{verbatim}\end{verbatim}\end{verbatim}", r"\let\x\end \x{verbatim}", r"\\\end{verbatim}", "\\",
]  # fmt: skip


def test_no_spelling_of_its_end_gets_a_program_out_of_its_listing() -> None:
    """As pandoc reads it, which accepts more than TeX."""
    listings = [verbatim(f"before\n{end}\n\\section{{FORGED}}\nafter") for end in ENDS]
    body = "\n\n".join(f"\\begin{{verbatim}}\n{each}\n\\end{{verbatim}}" for each in listings)
    source = f"\\documentclass{{article}}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"
    blocks = json.loads(pypandoc.convert_text(for_pandoc(source), "json", format="latex"))["blocks"]
    assert [(block["t"], block["c"][1]) for block in blocks] == [("CodeBlock", each) for each in listings]


def test_every_sign_is_printed_as_itself(
    tmp_path: Path, pandoc: PandocTypst, read: Callable[[Path], str]
) -> None:
    """Also beside letters, twice in a row, and where pandoc or TeX would take it for an option."""
    lines = [f"a{sign}b {sign} c {sign if sign == '–' else sign + sign} d" for sign in SIGNS]
    record = make_record()
    numbers = numbers_of(record)
    rows = tuple(Row((f"{sign}1{sign}", f"{sign}2{sign}", f"3{sign}")) for sign in SIGNS)
    document = Document(
        title="Signs", byline="Nobody", verdict="Refuted. No.", abstract=("None.",),
        blocks=(
            *(Paragraph(line) for line in lines),
            Table("signs", "Signs.", ("One", "Two", "Three"), ("left", "wide", "right"), rows, long=True),
            Listing("\n".join(lines[:94])),
        ),
        references=(), appendix=(), works=(),
    )  # fmt: skip
    source = tmp_path / "paper.tex"
    source.write_text(latex_of(document, numbers), encoding="utf-8")
    rendered = pandoc.render(source)
    assert rendered.warnings == ()
    text = read(rendered.pdf)
    missing = [line for line in lines if _typographic(line) not in _typographic(text)]
    cells = [f"{sign}1{sign} {sign}2{sign} 3{sign}" for sign in SIGNS]
    missing += [line for line in cells if _typographic(line) not in _typographic(text)]
    assert missing == []


def _typographic(text: str) -> str:
    """Return a text as typesetters write it: with bent apostrophes, minus signs, one form of each letter."""
    for one, other in (("'", "’"), ("‘", "’"), ("-", "−"), ("ϕ", "φ")):  # noqa: RUF001
        text = text.replace(one, other)
    return unicodedata.normalize("NFKC", text)


def test_every_digit_that_is_printed_stands_in_a_number_with_its_key_or_in_a_quote() -> None:
    tex = written(make_record(works=2, units=5))
    body = tex.partition(r"\begin{abstract}")[2].partition(r"\section*{Appendix")[0]
    body = re.sub(r"\\val\{[^{}]+\}\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "", body)
    body = re.sub(r"\\said\{(?:[^{}]|\{[^{}]*\})*\}", "", body)
    body = re.sub(r"\\(?:label|cite|bibitem|begin)\{[^{}]*\}(?:\{.*\})?", "", body)
    assert re.findall(r"\d+", body) == []


def test_hostile_texts_stay_texts_in_the_source() -> None:
    tex = written(make_record(text=HOSTILE, works=2))
    assert tex.count(r"\begin{document}") == tex.count(r"\end{document}") == 1
    assert tex.rstrip().endswith(r"\end{document}")
    before = tex.partition(r"\begin{verbatim}")[0]
    assert r"\input" not in before
    assert r"\val{effect.mean}{9.99}" not in before
    assert r"\textbackslash{}input\{/etc/passwd\}" in tex
    assert len(re.findall(r"\\begin\{verbatim\}", tex)) == len(re.findall(r"\\end\{verbatim\}", tex))
    assert "\x00" not in tex
    assert "\x1b" not in tex


def test_a_reference_to_nothing_is_an_error_and_not_a_hole() -> None:
    record = make_record()
    numbers = numbers_of(record)
    document = Document(
        title="T", byline="B", verdict="Refuted. {effect.maen}", abstract=("A.",), blocks=(), references=(),
        appendix=(), works=(),
    )  # fmt: skip
    with pytest.raises(KeyError, match=r"effect\.maen"):
        latex_of(document, numbers)


def test_the_source_reads_no_file_and_defines_nothing_that_does() -> None:
    preamble = written(make_record()).partition(r"\begin{document}")[0]
    commands = set(re.findall(r"\\([A-Za-z@]+)", preamble))
    assert not commands & {
        "input",
        "include",
        "write",
        "openin",
        "openout",
        "read",
        "immediate",
        "special",
        "csname",
    }
