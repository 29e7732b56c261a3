"""Turns the paper's LaTeX source into a PDF; tried before the experiments, so that no run fails at its end.

Law: a PDF counts only if this call made it, and then it counts, whatever the exit status of the renderer.
No shell escape, no network, no file outside the source's folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final, Protocol

import pypandoc

from events.runtime.errors import PipelineError
from stages.kinds.experiment.paper.latex import RAGGED
from stages.kinds.experiment.plots.glyphs import LAST_RESORT, has_glyph

TIME_LIMIT_S: Final = 120.0
WARNINGS_MAX: Final = 5
WARNING_MAX: Final = 300  # characters
LOG_MAX: Final = 1 << 20  # bytes of a log that are read
FILE_MAX: Final = 64 << 20  # bytes of a file that a program may write, its output among them
PDF_END_MAX: Final = 1_024  # bytes
PLACE: Final = "stages.kinds.experiment.paper"  # where the templates lie
HEAPS: Final = ("+RTS", "-M512m", "-RTS")
TYPST_BYTES_MAX: Final = 1 << 30  # a paper of forty pages full of tables needs as much
# Limits itself before it is the program: one that is limited from outside may be done before.
LIMITED: Final = """
import os, resource, signal, sys
file, data, *command = sys.argv[1:]
for each in (signal.SIGXFSZ, signal.SIGPIPE):  # which Python ignores, and so would the program
    signal.signal(each, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(file), int(file)))
resource.setrlimit(resource.RLIMIT_DATA, (int(data), int(data)))
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.exit(f"{command[0]} cannot be started: {error.strerror}")
"""
# In a process of its own: a figure of another pod may be one on which it ends, or for which it needs all memory.
TYPESET: Final = """
import sys, typst
target, pdf, root, most, longest = sys.argv[1:]
try:
    _, doubts = typst.compile_with_warnings(target, output=pdf, root=root, ignore_system_fonts=True)
    pages = typst.query(target, "<pages>", field="value", one=True, root=root, ignore_system_fonts=True)
    pages = int(pages)
except BaseException as error:  # one of Rust's among them
    sys.exit(str(error)[:int(longest)] or type(error).__name__)
for message in [*dict.fromkeys(doubt.message for doubt in doubts)][:int(most)]:
    print("typst:", " ".join(message.split())[:int(longest)])
print(pages)
"""

_BODY: Final = "\\begin{document}\n"
_LISTINGS: Final = re.compile(r"(\\begin\{verbatim\}.*?\\end\{verbatim\})", re.DOTALL)
_SECOND_HEAD: Final = re.compile(r"\\endfirsthead\n.*?(?=\\endhead)", re.DOTALL)  # one is enough for pandoc
_UNUSUAL: Final = re.compile(r"\\uni\{([0-9A-F]{4,6})\}\{(.)\}", re.DOTALL)
_PAGES: Final = re.compile(r"Output written on .*?\((\d+)\s+pages?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A finished PDF; `made` are other files on the way that are worth keeping."""

    pdf: Path
    pages: int
    warnings: tuple[str, ...] = ()
    made: tuple[Path, ...] = ()


class Renderer(Protocol):
    """Makes `paper.pdf` out of `paper.tex`, beside it."""

    @property
    def name(self) -> str: ...

    def render(self, source: Path) -> Rendered:
        """Return the PDF. Raises `RenderingFailed` where none was made."""
        ...


class RenderingFailed(PipelineError):
    """No PDF was made; the source is kept."""

    def __init__(self, message: str) -> None:
        super().__init__("RENDERER", message)


@dataclass(frozen=True, slots=True)
class Latexmk:
    """The TeX that is installed here."""

    program: str
    name: str = "latexmk"

    def render(self, source: Path) -> Rendered:
        build, pdf = source.parent / "build", source.with_suffix(".pdf")
        pdf.unlink(missing_ok=True)
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir()
        try:
            return self._rendered(source, build, pdf)
        finally:
            shutil.rmtree(build, ignore_errors=True)

    def _rendered(self, source: Path, build: Path, pdf: Path) -> Rendered:
        command = (
            self.program, "-pdf", "-f", "-norc", "-interaction=nonstopmode", "-no-shell-escape",
            "-output-directory=build", source.name,
        )  # fmt: skip
        environment = {
            "PATH": os.defpath + os.pathsep + str(Path(self.program).parent),
            "HOME": str(build), "TEXMFVAR": str(build), "LC_ALL": "C.UTF-8", "openin_any": "p", "openout_any": "p",
            "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1",
        }  # fmt: skip
        end = _run(command, source.parent, environment)
        made = build / f"{source.stem}.pdf"
        log = _read(build / f"{source.stem}.log")
        if end.status is None or not is_pdf(made):  # whoever is stopped leaves half a file
            raise RenderingFailed(f"latexmk {end.words} and made no PDF: {_complaints(log) or end.output}")
        shutil.move(made, pdf)
        pages = _PAGES.search(log)
        warnings = [] if end.is_good else [f"latexmk {end.words}, and made a PDF: {_complaints(log)}"]
        return Rendered(pdf, int(pages[1]) if pages else 1, tuple(each[:WARNING_MAX] for each in warnings))


@dataclass(frozen=True, slots=True)
class PandocTypst:
    """Pandoc reads the LaTeX, Typst sets it; both come as wheels."""

    program: str
    name: str = "pandoc and typst"

    def render(self, source: Path) -> Rendered:
        plain, target, pdf = (source.with_suffix(end) for end in (".pandoc.tex", ".typ", ".pdf"))
        pdf.unlink(missing_ok=True)
        target.unlink(missing_ok=True)
        plain.write_text(for_pandoc(source.read_text(encoding="utf-8")), encoding="utf-8")
        with as_file(files(PLACE) / "template.typ") as template, as_file(files(PLACE) / "filter.lua") as lua:
            end = _run(
                (
                    self.program, *HEAPS, "--sandbox", "--from=latex", "--to=typst-smart", "--standalone",
                    f"--template={template}", f"--lua-filter={lua}", f"--output={target.name}", plain.name,
                ),
                source.parent, {"LC_ALL": "C.UTF-8", "HOME": str(source.parent), "PATH": os.defpath},
            )  # fmt: skip
        plain.unlink()
        if not end.is_good or not target.is_file():  # what was stopped leaves half a file
            raise RenderingFailed(f"pandoc {end.words}: {end.output[:WARNING_MAX]}")
        command = (
            sys.executable, "-I", "-c", TYPESET, target.name, pdf.name, ".", str(WARNINGS_MAX), str(WARNING_MAX),
        )  # fmt: skip
        typeset = _run(command, source.parent, {"LC_ALL": "C.UTF-8", "PATH": os.defpath}, TYPST_BYTES_MAX)
        if not typeset.is_good or not is_pdf(pdf):
            log = typeset.output[:WARNING_MAX] or typeset.words
            raise RenderingFailed(f"typst made no PDF: {log}")
        *doubts, pages = typeset.output.splitlines()
        warnings = [f"pandoc: {line}" for line in end.output.splitlines() if line.strip()] + doubts
        kept = tuple(each[:WARNING_MAX] for each in warnings[:WARNINGS_MAX])
        return Rendered(pdf, int(pages), kept, (target,))


def for_pandoc(source: str) -> str:
    """Return the source with what pandoc reads otherwise than TeX put plainly; listings stay as they are."""
    _, begin, body = source.partition(_BODY)
    parts = _LISTINGS.split(body)
    for place in range(0, len(parts), 2):
        parts[place] = (
            parts[place]
            .replace(r"\begin{thebibliography}{99}", "\\section*{References}\n\\begin{enumerate}")
            .replace(r"\end{thebibliography}", r"\end{enumerate}")
            .replace(RAGGED, "")  # pandoc would put it before each cell, where it eats a number
        )
        parts[place] = re.sub(r"\\bibitem\{work\d+\}", r"\\item", parts[place])
        parts[place] = _SECOND_HEAD.sub("", parts[place])
        parts[place] = _UNUSUAL.sub(_printed_or_named, parts[place])
    preamble = (files(PLACE) / "pandoc.tex").read_text(encoding="utf-8")
    return preamble + begin + "".join(parts)


def _printed_or_named(match: re.Match[str]) -> str:
    """Return an unusual sign, or its code where no font here has it; a line may break behind a code."""
    code, char = match.groups()
    return char if has_glyph(char, LAST_RESORT) else rf"{{[}}U+{code}{{]}}\allowbreak{{}}"


def find_renderer(folder: Path) -> Renderer:
    """Return a renderer that made a PDF just now: TeX where it works, else pandoc and typst.

    Raises `PipelineError` with the code CONFIG and the packages to install.
    """
    problems: list[str] = []
    for look in (_latexmk, _pandoc):
        found = look()
        if isinstance(found, str):
            problems.append(found)
            continue
        problem = problem_of(found, folder)
        if problem is None:
            return found
        problems.append(f"{found.name} is installed and does not work: {problem}")
    raise PipelineError(
        "CONFIG",
        "the paper could not be written here: "
        + "; ".join(problems)
        + ". Install podfleet[experiment] (it brings pypandoc_binary and typst), or latexmk with LaTeX's recommended "
        "packages (on Debian: latexmk, texlive-latex-recommended, lmodern)",
    )


def _latexmk() -> Renderer | str:
    program = shutil.which("latexmk")
    return Latexmk(program) if program else "latexmk is not installed"


def _pandoc() -> Renderer | str:
    try:
        return PandocTypst(pypandoc.get_pandoc_path())
    except OSError:
        return "pandoc is not installed"


def problem_of(renderer: Renderer, folder: Path) -> str | None:
    """Return why a renderer cannot make a PDF of a page with every package that papers use; None: it can."""
    place = folder / "renderer-check"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    preamble = (files(PLACE) / "preamble.tex").read_text(encoding="utf-8")
    page = (files(PLACE) / "check.tex").read_text(encoding="utf-8")
    source = place / "paper.tex"
    source.write_text(preamble + page, encoding="utf-8")
    try:
        rendered = renderer.render(source)
    except RenderingFailed as error:
        return error.message
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return "; ".join(rendered.warnings) or None


@dataclass(frozen=True, slots=True)
class _End:
    """How a program ended, and the tail of its output."""

    status: int | None
    output: str

    @property
    def is_good(self) -> bool:
        return self.status == 0

    @property
    def words(self) -> str:
        return (
            f"was stopped after {TIME_LIMIT_S:.0f} s"
            if self.status is None
            else f"ended with status {self.status}"
        )


def _run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], bytes_max: int | None = None
) -> _End:
    """Run a program in a group of its own, which is gone when this returns."""
    log = folder / "renderer.log"
    with log.open("wb") as out:
        limits = str(FILE_MAX), str(resource.RLIM_INFINITY if bytes_max is None else bytes_max)
        process = subprocess.Popen(
            (sys.executable, "-I", "-S", "-c", LIMITED, *limits, *command), cwd=folder, env=dict(environment),
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
        status: int | None
        try:
            status = process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    output = _read(log)[-2_000:].strip()
    log.unlink()
    return _End(status, output)


def _read(path: Path) -> str:
    """Return the end of a log."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_MAX))
        return file.read().decode("utf-8", "replace")


def _complaints(log: str) -> str:
    """Return the errors of a TeX log, shortened."""
    return "; ".join(line[2:] for line in log.splitlines() if line.startswith("! "))[:WARNING_MAX]


def is_pdf(path: Path) -> bool:
    """Return whether a file begins and ends as a PDF does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        begins = file.read(5) == b"%PDF-"
        file.seek(max(0, path.stat().st_size - PDF_END_MAX))
        return begins and b"%%EOF" in file.read()
