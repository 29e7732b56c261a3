r"""The LaTeX form of a paper, pure.

Law: every text goes through `escaped`; a number is `\val{key}{text}` and a quoted text `\said{text}`, so
that the source itself names the measurement of each printed digit. No macro of ours does anything, and no
file is read but the pictures beside the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from stages.kinds.experiment.paper.blocks import (
    Align,
    Block,
    Document,
    Figure,
    Heading,
    Listing,
    Paragraph,
    Row,
    Table,
)
from stages.kinds.experiment.record.numbers import REFERENCE, Numbers

CITATION: Final = "work."  # `{work.0}` cites the first work of the record
RAGGED: Final = r">{\raggedright\arraybackslash}"  # before each cell of a wide column
WIDE_SHARE: Final = 0.6  # of the text's width, for the wide columns of a table together

_ESCAPES: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "[": "{[}", "]": "{]}",  # bare, they would be an option of the command before them
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": "'",
    "\N{NO-BREAK SPACE}": "~", "\N{ZERO WIDTH SPACE}": r"\allowbreak{}", "\N{MINUS SIGN}": r"\ensuremath{-}",
    "…": r"\ldots{}", "–": r"\textendash{}", "—": r"\textemdash{}", "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}", "’": r"\textquoteright{}", "\N{LEFT SINGLE QUOTATION MARK}": r"\textquoteleft{}",
    "×": r"\ensuremath{\times}", "±": r"\ensuremath{\pm}", "≤": r"\ensuremath{\leq}", "≥": r"\ensuremath{\geq}",
    "→": r"\ensuremath{\rightarrow}", "≈": r"\ensuremath{\approx}", "·": r"\textperiodcentered{}",
    "°": r"\textdegree{}", "µ": r"\textmu{}", "∞": r"\ensuremath{\infty}",
}  # fmt: skip
_GREEK: Final = {  # by code, since many look like Latin letters
    0x3B1: "alpha", 0x3B2: "beta", 0x3B3: "gamma", 0x3B4: "delta", 0x3B5: "varepsilon", 0x3B7: "eta", 0x3B8: "theta",
    0x3BA: "kappa", 0x3BB: "lambda", 0x3BC: "mu", 0x3BE: "xi", 0x3C0: "pi", 0x3C1: "rho", 0x3C3: "sigma",
    0x3C4: "tau", 0x3C6: "varphi", 0x3C7: "chi", 0x3C8: "psi", 0x3C9: "omega", 0x393: "Gamma", 0x394: "Delta",
    0x398: "Theta", 0x39B: "Lambda", 0x3A0: "Pi", 0x3A3: "Sigma", 0x3A6: "Phi", 0x3A8: "Psi", 0x3A9: "Omega",
}  # fmt: skip
_LATIN: Final = frozenset("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿąćčďęěğıłńňőřśšşťůűźżž")
_LIGATURES: Final = frozenset("-<>?!`',")  # two of a kind would melt into another sign


def escaped(text: str) -> str:
    """Return `text` as LaTeX that prints exactly it; a sign that its fonts lack is named by its code."""
    parts: list[str] = []
    for before, char in zip(" " + text, text, strict=False):
        if char == before and char in _LIGATURES:
            parts.append("{}")
        parts.append(_escaped_char(char))
    return "".join(parts)


def _escaped_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if ord(char) in _GREEK:
        return rf"\ensuremath{{\{_GREEK[ord(char)]}}}"
    if not char.isprintable():
        return " "
    if char.isascii() or char in _LATIN:
        return char
    return rf"\uni{{{ord(char):04X}}}{{{char}}}"


def latex_of(document: Document, numbers: Numbers) -> str:
    """Return the whole source. Raises `KeyError` for a reference to nothing."""
    writer = _Writer(numbers, {place: number for number, place in enumerate(document.works, start=1)})
    text = writer.text
    word, _, rest = document.verdict.partition(". ")
    verdict = rf"\textbf{{{text(word)}.}} {text(rest)}"
    lines = [
        (files("stages.kinds.experiment.paper") / "preamble.tex").read_text(encoding="utf-8").rstrip(),
        r"\begin{document}",
        rf"\title{{{text(document.title)}}}",
        rf"\author{{\byline{{{text(document.byline)}}}}}",
        r"\date{}",
        r"\maketitle",
        r"\begin{abstract}",
        "\n\n".join(text(each) for each in document.abstract),
        r"\end{abstract}",
        rf"\begin{{verdict}}{verdict}\end{{verdict}}",
        *(writer.block(block) for block in document.blocks),
        *writer.references(document),
        *(writer.block(block) for block in document.appendix),
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


class _Writer:
    """Turns blocks into LaTeX."""

    def __init__(self, numbers: Numbers, cited: dict[int, int]) -> None:
        self.numbers = numbers
        self.cited = cited

    def text(self, words: str) -> str:
        """Return words whose references are printed with the keys they came by."""
        parts: list[str] = []
        end = 0
        for match in REFERENCE.finditer(words):
            parts += [escaped(words[end : match.start()]), self._referred(match[1])]
            end = match.end()
        return "".join((*parts, escaped(words[end:])))

    def _referred(self, key: str) -> str:
        if key in self.numbers.numbers:
            return number_in_latex(key, self.numbers.numbers[key].text)
        if key in self.numbers.quotes:
            return rf"\said{{{escaped(self.numbers.quotes[key].text)}}}"
        if key.startswith(CITATION):
            return rf"\cite{{work{self.cited[int(key.removeprefix(CITATION))]}}}"
        raise KeyError(key)

    def block(self, block: Block) -> str:
        match block:
            case Heading(text=words, numbered=numbered):
                return rf"\section{'' if numbered else '*'}{{{self.text(words)}}}"
            case Paragraph(text=words, quoted=quoted):
                plain = self.text(words)
                return f"\\begin{{quote}}\\emph{{{plain}}}\\end{{quote}}\n" if quoted else f"{plain}\n"
            case Table():
                return self._table(block)
            case Figure():
                return self._figure(block)
            case Listing(text=words):
                return f"\\begin{{verbatim}}\n{verbatim(words)}\n\\end{{verbatim}}\n"

    def _figure(self, figure: Figure) -> str:
        return "\n".join(
            (
                r"\begin{figure}[H]",
                r"\centering",
                rf"\includegraphics[width={figure.width:.2f}\linewidth]{{{figure.path.as_posix()}}}",
                rf"\caption{{{self.text(figure.caption)}}}\label{{fig:{figure.label}}}",
                "\\end{figure}\n",
            )
        )

    def _table(self, table: Table) -> str:
        columns = _columns(table.align)
        header = " & ".join(rf"\textbf{{{self.text(each)}}}" for each in table.header) + r" \\"
        caption = rf"\caption{{{self.text(table.caption)}}}\label{{tab:{table.label}}}"
        rows = [self._row(row) for row in table.rows]
        if table.long:
            return "\n".join(
                (
                    r"{\footnotesize", rf"\begin{{longtable}}{{{columns}}}", rf"{caption}\\", r"\toprule", header,
                    r"\midrule", r"\endfirsthead", r"\toprule", header, r"\midrule", r"\endhead", r"\bottomrule",
                    r"\endfoot", *rows, r"\end{longtable}", "}\n",
                )
            )  # fmt: skip
        return "\n".join(
            (
                r"\begin{table}[H]", r"\centering\footnotesize", caption, rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule", header, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", "\\end{table}\n",
            )
        )  # fmt: skip

    def _row(self, row: Row) -> str:
        cells = [self.text(cell) for cell in row.cells]
        return " & ".join(rf"\textbf{{{cell}}}" if row.bold and cell else cell for cell in cells) + r" \\"

    def references(self, document: Document) -> list[str]:
        """Return the list of references; empty where nothing is cited."""
        if not document.references:
            return []
        lines = [r"\begin{thebibliography}{99}"]
        for number, each in enumerate(document.references, start=1):
            url = f" {self.text(each.url)}" if each.url else ""
            lines.append(rf"\bibitem{{work{number}}} {self.text(each.text)}{url}")
        return [*lines, "\\end{thebibliography}\n"]


def number_in_latex(key: str, text: str) -> str:
    """Return a printed number that carries its key."""
    return rf"\val{{{key}}}{{{escaped(text)}}}"


def verbatim(text: str) -> str:
    """Return program text that cannot end the listing it stands in, in signs that its font has."""
    kept = "".join(
        char if char == "\n" or (char.isascii() and char.isprintable()) else _named(char) for char in text
    )
    # TeX ends a listing at one spelling, pandoc at many (blanks, comments and new lines may stand behind
    # the command): without the command there is none.
    return kept.replace(r"\end", f"{_named(chr(92))}end").rstrip("\n")


def _named(char: str) -> str:
    return "    " if char == "\t" else f"<U+{ord(char):04X}>"


def _columns(align: Sequence[Align]) -> str:
    """Return the column specification; wide columns break their lines."""
    share = WIDE_SHARE / max(1, align.count("wide"))
    kinds = {
        "left": "l",
        "right": "r",
        "wide": rf"{RAGGED}p{{{share:.2f}\linewidth}}",
    }
    return "@{}" + "".join(kinds[each] for each in align) + "@{}"
