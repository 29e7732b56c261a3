"""How sources become PDFs, and how it is found out before a run that they cannot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pypandoc
import pypdf
import pytest

from events.runtime.errors import PipelineError
from stages.kinds.experiment.paper import renderer as module
from stages.kinds.experiment.paper.latex import escaped
from stages.kinds.experiment.paper.renderer import (
    Latexmk,
    PandocTypst,
    Rendered,
    RenderingFailed,
    find_renderer,
    for_pandoc,
    problem_of,
)

PANDOC = PandocTypst(pypandoc.get_pandoc_path())
PAGE = "\\documentclass{article}\n\\begin{document}\n%s\n\\end{document}\n"
OLD = b"%PDF-1.7 of yesterday"


def program(folder: Path, body: str, name: str = "program") -> str:
    """Return the path of a program that does what `body` says in a shell."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def source_in(folder: Path, text: str = PAGE % "A page.") -> Path:
    source = folder / "paper.tex"
    source.write_text(text)
    return source


def text_of(pdf: Path) -> str:
    return " ".join(page.extract_text() for page in pypdf.PdfReader(pdf).pages)


# --- pandoc and typst ---------------------------------------------------------------------------------


def test_pandoc_and_typst_make_a_pdf_of_every_package_that_papers_use(tmp_path: Path) -> None:
    assert problem_of(PANDOC, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def figure_of(folder: Path, *objects: bytes) -> Path:
    """Make a figure of these objects, as another pod may leave one; return a paper that shows it."""
    content = b"%PDF-1.7\n"
    places = []
    for number, each in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    end = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(content))
    (folder / "figure.pdf").write_bytes(content + head + table + end)
    return source_in(
        folder, PAGE.replace("\\begin", "\\usepackage{graphicx}\n\\begin") % "\\includegraphics{figure.pdf}"
    )


ONE_PAGE = (b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>")
PAGE_OF = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]%s>>"


def test_a_figure_that_ends_the_typesetter_ends_nothing_else(tmp_path: Path) -> None:
    assert PANDOC.render(figure_of(tmp_path, *ONE_PAGE, PAGE_OF % b"")).pages == 1
    deep = b"[" * 200_000 + b"]" * 200_000
    with pytest.raises(RenderingFailed, match="typst made no PDF: ended with status -11"):
        PANDOC.render(figure_of(tmp_path, *ONE_PAGE, PAGE_OF % (b"/X " + deep)))
    assert not (tmp_path / "paper.pdf").exists()


def test_the_typesetter_gets_so_much_memory_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TYPST_BYTES_MAX", 1 << 20)
    with pytest.raises(RenderingFailed, match="typst made no PDF"):
        PANDOC.render(source_in(tmp_path))


LARGE = '#image(read("noise.bin", encoding: none), format: (encoding: "luma8", width: 10000, height: 7000))'


@pytest.mark.parametrize(
    ("typst", "words"),
    [
        ("#let many = range(30000000)", "memory allocation of [0-9]+ bytes failed"),
        ('#panic("x" * 33554432)', "panicked with: xxx"),
        ('#metadata("x" * 134217728) <pages>', r"invalid literal for int\(\)"),
        ('#metadata("9" * 5000) <pages>', r"invalid literal for int\(\)"),
        pytest.param(LARGE, "File too large", marks=pytest.mark.slow("packs a picture of 70 MB")),
    ],
)
def test_a_document_that_takes_or_answers_much_ends_with_words(
    tmp_path: Path, typst: str, words: str
) -> None:
    (tmp_path / "noise.bin").write_bytes(os.urandom(70_000_000) if typst == LARGE else b"")
    (tmp_path / "given.typ").write_text(typst if "<pages>" in typst else f"{typst}\n#metadata(1) <pages>")
    pandoc = program(tmp_path, "cp given.typ paper.typ", "pandoc")
    with pytest.raises(RenderingFailed, match=f"typst made no PDF: {words}") as failure:
        PandocTypst(pandoc).render(source_in(tmp_path))
    assert len(failure.value.message) < 400


@pytest.mark.parametrize(
    ("body", "status"), [("exec head -c 70000000 /dev/zero", -25), ("echo half > paper.typ; exit 3", 3)]
)
def test_a_pandoc_that_fails_is_told_whatever_it_left(tmp_path: Path, body: str, status: int) -> None:
    pandoc = program(tmp_path, f"sleep 0.2; {body}", "pandoc")
    with pytest.raises(RenderingFailed, match=f"pandoc ended with status {status}") as failure:
        PandocTypst(pandoc).render(source_in(tmp_path))
    assert len(failure.value.message) < 400


def test_what_was_made_is_named_and_the_source_is_kept(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    rendered = PANDOC.render(source)
    assert (rendered.pages, rendered.warnings) == (1, ())
    assert "A page." in text_of(rendered.pdf)
    assert {path.name for path in tmp_path.iterdir()} == {"paper.tex", "paper.pdf", "paper.typ"}


def test_words_that_begin_a_cell_or_a_caption_make_no_heading_and_no_list(tmp_path: Path) -> None:
    words = [
        "= Forged",
        "== F",
        "- F",
        "+ F",
        "/ F: f",
        "12. F",
        "--- F",
        "-? F",
        "#F",
        "_ F_",
        "\\F",
        "[F] ]",
        "~F",
    ]
    cells = [escaped(each) for each in words]
    table = "\\begin{table}\\caption{%s}\\begin{tabular}{ll}%s\\end{tabular}\\end{table}"
    body = [f"{cell}\n\n\\emph{{{cell}}}\n\n" for cell in cells]
    body += [table % (cell, f"{cell} & {cell} \\\\") for cell in cells]
    pdf = PANDOC.render(source_in(tmp_path, PAGE % "\n".join(body))).pdf
    assert pypdf.PdfReader(pdf).outline == []
    text = " ".join(text_of(pdf).split())
    assert [each for each in words if text.count(each) < 5] == []


@pytest.mark.parametrize("make", [PandocTypst, Latexmk])
def test_a_pdf_of_yesterday_is_not_taken_for_one_of_today(
    make: Callable[[str], PandocTypst | Latexmk], tmp_path: Path
) -> None:
    source = source_in(tmp_path)
    source.with_suffix(".pdf").write_bytes(OLD)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "paper.pdf").write_bytes(OLD)
    (tmp_path / "paper.typ").write_text("yesterday's")
    with pytest.raises(RenderingFailed, match=r"ended with status 3.*no food for the press"):
        make(program(tmp_path, "echo no food for the press >&2; exit 3")).render(source)
    assert not source.with_suffix(".pdf").exists()


@pytest.mark.parametrize("make", [PandocTypst, Latexmk])
def test_a_program_that_never_ends_is_stopped_with_everything_it_started(
    make: Callable[[str], PandocTypst | Latexmk],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
) -> None:
    child = tmp_path / "child"
    child.touch()
    body = f"sleep 600 & echo $! > {child}; trap '' TERM; while :; do :; done"
    limits_s = iter((0.5, 5.0, 50.0))
    while not child.read_text():  # on a loaded machine it may be stopped before it has started anything
        monkeypatch.setattr(module, "TIME_LIMIT_S", next(limits_s))
        with pytest.raises(RenderingFailed, match="was stopped after"):
            make(program(tmp_path, body)).render(source_in(tmp_path))
    until(lambda: _is_over(int(child.read_text())))


def _is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second while it is read
        return True


def test_a_source_that_pandoc_cannot_read_fails_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(RenderingFailed, match="pandoc ended with status"):
        PANDOC.render(source_in(tmp_path, PAGE % r"\begin{itemize} \item \end{document"))


def test_a_picture_that_is_not_there_fails_instead_of_leaving_a_hole(tmp_path: Path) -> None:
    with pytest.raises(RenderingFailed, match="typst made no PDF"):
        PANDOC.render(source_in(tmp_path, PAGE % r"\includegraphics{plots/none.pdf}"))


@pytest.mark.parametrize("outside", ["/etc/passwd", "../secret.png", "../../../../../../etc/passwd"])
def test_no_file_outside_the_folder_is_read(outside: str, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_text("secret")
    folder = tmp_path / "paper"
    folder.mkdir()
    body = rf"\input{{{outside}}} \includegraphics{{{outside}}} Words."
    with pytest.raises(RenderingFailed):
        PANDOC.render(source_in(folder, PAGE % body))
    (folder / "paper.tex").write_text(PAGE % rf"\input{{{outside}}} Words.")
    try:
        rendered = PANDOC.render(folder / "paper.tex")
    except RenderingFailed:
        return
    assert "root:" not in text_of(rendered.pdf)
    assert "secret" not in text_of(rendered.pdf).replace("../secret.png", "")


def test_what_pandoc_would_misread_is_put_plainly() -> None:
    source = (
        "\\documentclass{x}\n\\begin{document}\n\\begin{tabular}{l>{\\raggedright\\arraybackslash}p{2cm}}\n"
        "\\uni{4E2D}{中} \\uni{0416}{Ж}\n"
        "\\begin{verbatim}\n\\uni{4E2D}{中} \\bibitem{work1}\n\\end{verbatim}\n"
        "\\begin{thebibliography}{99}\n\\bibitem{work1} A.\n\\end{thebibliography}\n\\end{document}\n"
    )
    plain = for_pandoc(source)
    assert "arraybackslash" not in plain
    assert "{[}U+4E2D{]}\\allowbreak{} Ж" in plain
    assert "\\begin{verbatim}\n\\uni{4E2D}{中} \\bibitem{work1}\n\\end{verbatim}" in plain
    assert "\\section*{References}\n\\begin{enumerate}\n\\item A.\n\\end{enumerate}" in plain


# --- which renderer is taken --------------------------------------------------------------------------


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for programs that is the whole PATH, so that no TeX of this machine is found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def no_pandoc() -> str:
    raise OSError("No pandoc was found")


def test_without_tex_pandoc_and_typst_are_taken(bare_path: Path, tmp_path: Path) -> None:
    del bare_path
    assert isinstance(find_renderer(tmp_path / "check"), PandocTypst)


def test_a_tex_that_does_not_work_is_passed_over(bare_path: Path, tmp_path: Path) -> None:
    program(bare_path, "echo '! LaTeX Error: File lmodern.sty not found.'; exit 12", "latexmk")
    assert isinstance(find_renderer(tmp_path / "check"), PandocTypst)


def test_a_run_without_any_renderer_fails_at_once_and_says_what_to_install(
    bare_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del bare_path
    monkeypatch.setattr(module.pypandoc, "get_pandoc_path", no_pandoc)
    with pytest.raises(PipelineError) as caught:
        find_renderer(tmp_path / "check")
    assert caught.value.code == "CONFIG"
    assert not caught.value.retryable
    for word in ("latexmk is not installed", "pandoc is not installed", "podfleet[experiment]", "lmodern"):
        assert word in caught.value.message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 0", "pandoc ended with status 0"),
        ("echo 'cannot execute' >&2; exit 126", "pandoc ended with status 126: cannot execute"),
        ('for each; do case "$each" in --output=*) echo "#a(" > "${each#--output=}";; esac; done', "typst"),
    ],
)  # fmt: skip
def test_a_broken_pandoc_is_found_before_the_experiments_and_named(
    body: str, said: str, bare_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandoc = program(tmp_path, body, "pandoc")
    monkeypatch.setattr(module.pypandoc, "get_pandoc_path", lambda: pandoc)
    with pytest.raises(PipelineError, match="pandoc and typst is installed and does not work") as caught:
        find_renderer(tmp_path / "check")
    assert said in caught.value.message
    assert caught.value.code == "CONFIG"
    assert not (tmp_path / "check" / "renderer-check").exists()
    del bare_path


def test_a_pandoc_that_cannot_be_started_is_named_too(
    bare_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.pypandoc, "get_pandoc_path", lambda: str(bare_path / "gone"))
    with pytest.raises(PipelineError, match="cannot be started: No such file or directory"):
        find_renderer(tmp_path / "check")


def test_a_renderer_with_doubts_about_the_page_is_not_taken(tmp_path: Path) -> None:
    class Doubtful:
        name = "doubtful"

        def render(self, source: Path) -> Rendered:
            return Rendered(source.with_suffix(".pdf"), 1, ("block was ignored",))

    assert problem_of(Doubtful(), tmp_path) == "block was ignored"


@pytest.mark.parametrize("left", [b"", b"%PDF-1.7\nhalf a file", b"no PDF\n%%EOF\n"])
def test_half_a_pdf_is_none(left: bytes, tmp_path: Path) -> None:
    (tmp_path / "left").write_bytes(left)
    maker = program(tmp_path, f"cp {tmp_path}/left build/paper.pdf")
    with pytest.raises(RenderingFailed, match="latexmk ended with status 0 and made no PDF"):
        Latexmk(maker).render(source_in(tmp_path))


def test_a_program_that_would_fill_the_disk_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_MAX", 1 << 20)
    monkeypatch.setattr(module, "TIME_LIMIT_S", 20.0)
    body = 'while [ "$(ulimit -f)" = unlimited ]; do :; done; exec cat /dev/zero > build/paper.log'
    with pytest.raises(RenderingFailed, match="latexmk ended with status -25 and made no PDF"):
        Latexmk(program(tmp_path, body)).render(source_in(tmp_path))


# --- latexmk, where it is installed -------------------------------------------------------------------

TEX = shutil.which("latexmk")
with_tex = pytest.mark.skipif(TEX is None, reason="latexmk is not installed here; podfleet does without it")


@pytest.fixture
def latexmk() -> Latexmk:
    assert TEX is not None
    return Latexmk(TEX)


@with_tex
def test_latexmk_makes_a_pdf_of_every_package_that_papers_use(latexmk: Latexmk, tmp_path: Path) -> None:
    assert problem_of(latexmk, tmp_path) is None
    assert isinstance(find_renderer(tmp_path / "check"), Latexmk)


@with_tex
def test_latexmk_counts_the_pages_and_leaves_only_the_pdf(latexmk: Latexmk, tmp_path: Path) -> None:
    rendered = latexmk.render(source_in(tmp_path, PAGE % r"One.\newpage Two.\newpage Three."))
    assert (rendered.pages, rendered.warnings) == (3, ())
    assert "Three." in text_of(rendered.pdf)
    assert {path.name for path in tmp_path.iterdir()} == {"paper.tex", "paper.pdf"}


@with_tex
def test_a_missing_package_is_named(latexmk: Latexmk, tmp_path: Path) -> None:
    source = source_in(tmp_path, (PAGE % "A.").replace("\n", "\n\\usepackage{nosuchpackage}\n", 1))
    with pytest.raises(RenderingFailed, match=r"nosuchpackage\.sty' not found"):
        latexmk.render(source)


@with_tex
def test_a_pdf_that_was_made_in_spite_of_errors_counts_and_its_errors_are_told(
    latexmk: Latexmk, tmp_path: Path
) -> None:
    rendered = latexmk.render(source_in(tmp_path, PAGE % r"Before \undefinedcommand{} after."))
    assert "Before after." in text_of(rendered.pdf)
    assert len(rendered.warnings) == 1
    assert "Undefined control sequence" in rendered.warnings[0]


@with_tex
@pytest.mark.parametrize("loop", [r"\def\x{\x}\x", r"\def\x{\x\x}\x", r"\def\x{a\par\x}\x"])
def test_a_source_that_never_ends_is_stopped(
    loop: str, latexmk: Latexmk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIME_LIMIT_S", 3.0)
    with pytest.raises(RenderingFailed, match=r"was stopped after 3 s|capacity exceeded"):
        latexmk.render(source_in(tmp_path, PAGE % loop))


@with_tex
def test_no_command_is_run_and_no_file_outside_is_read_or_written(latexmk: Latexmk, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    folder = tmp_path / "paper"
    folder.mkdir()
    attacks = (
        rf"\immediate\write18{{touch {tmp_path}/written}}",
        r"\immediate\write18{touch written}",
        rf"\newwrite\f\immediate\openout\f={tmp_path}/o.txt \immediate\write\f{{x}}\immediate\closeout\f",
        r"\input{|echo piped}", r"\input{/etc/passwd}", r"\input{../secret.txt}",
        rf"\input{{{tmp_path}/secret.txt}}",
    )  # fmt: skip
    for attack in attacks:
        source = source_in(folder, PAGE % f"Words. {attack} More words.")
        try:
            text = text_of(latexmk.render(source).pdf)
        except RenderingFailed:
            text = ""
        for stolen in ("root:", "the secret", "piped"):
            assert stolen not in text, attack
        assert {path.name for path in tmp_path.iterdir()} == {"secret.txt", "paper"}, attack
        assert {path.name for path in folder.iterdir()} <= {"paper.tex", "paper.pdf"}, attack


@with_tex
def test_the_settings_of_a_user_or_a_folder_change_nothing(latexmk: Latexmk, tmp_path: Path) -> None:
    (tmp_path / "latexmkrc").write_text(f"system('touch {tmp_path}/written');")
    (tmp_path / ".latexmkrc").write_text(f"system('touch {tmp_path}/written');")
    latexmk.render(source_in(tmp_path))
    assert not (tmp_path / "written").exists()
