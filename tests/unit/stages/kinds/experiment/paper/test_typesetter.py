"""The written paper: its source, its PDF, its size, and what stands in it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stages.kinds.experiment.judging.switch import difference_of
from stages.kinds.experiment.paper import typesetter
from stages.kinds.experiment.paper.blocks import Listing
from stages.kinds.experiment.paper.document import LEVELS, composed
from stages.kinds.experiment.paper.renderer import PandocTypst, Rendered, Renderer, RenderingFailed
from stages.kinds.experiment.paper.typesetter import Paper
from stages.kinds.experiment.paper.words import AUTHOR, write_words
from stages.kinds.experiment.record.numbers import Numbers, numbers_of
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.testing import HOSTILE, make_record

Press = Callable[..., Paper]
Read = Callable[[Path], str]


def spaceless(text: str) -> str:
    """Return a text as it is whatever broke its lines, and whoever set its signs."""
    text = unicodedata.normalize("NFKC", text)
    return re.sub(r"[\s\N{ZERO WIDTH SPACE}]", "", text).replace("-", "−").replace("'", "’")


def printed(numbers: Numbers, tex: str) -> set[str]:
    """Return the text of each number and each quote that a source prints."""
    keys = set(re.findall(r"\\val\{([^{}]+)\}", tex.partition(r"\begin{document}")[2]))
    return {numbers.text(key) for key in keys}


def test_every_printed_number_and_every_caption_is_in_the_pdf(
    press: Press, read: Read, renderer: Renderer
) -> None:
    """Each digit arrives, whatever sets it: no cell is empty, no caption left out."""
    record = make_record(works=2, effect=0.02)
    paper = press(record, renderer=renderer)
    assert paper.warnings == ()
    text, tex = spaceless(read(paper.pdf)), paper.source.read_text()
    assert [each for each in printed(paper.numbers, tex) if spaceless(each) not in text] == []
    for caption in ("Table 1: What the two arms", "Table 2: The effort", "Table 11: Under what conditions"):
        assert spaceless(caption) in text
    assert "epochspertraining20" in text
    assert "python3.11.9" in text
    for line in difference_of(record.intervention.code):
        assert spaceless(line) in text
    assert spaceless("[1] Ada Lovelace, Noor Khan. On regularising network 0. JMLR. 2014.") in text


def test_the_text_for_reviewers_is_the_paper_and_bounded(press: Press) -> None:
    record = make_record(works=1)
    paper = press(record)
    assert paper.text.startswith("Does the accuracy on digits become higher with dropout?")
    assert "[1] Ada Lovelace" in paper.text
    assert "{" not in paper.text.partition("Appendix: program")[0]
    assert "4. Results of the search" in paper.text
    tex = paper.source.read_text()
    assert [each for each in printed(paper.numbers, tex) if each not in paper.text] == []
    assert "dropout: 0.0 / 0.2" in paper.text


def test_hostile_texts_stay_texts_in_the_pdf(press: Press, read: Read, renderer: Renderer) -> None:
    record = make_record(text=HOSTILE, works=2)
    paper = press(record, renderer=renderer)
    text = spaceless(read(paper.pdf))
    for part in (
        r"\input{/etc/passwd} \end{document} $x_1$ 50% #1 & ~ ^ {effect.mean} <script>alert(1)</script>",
        r"\val{effect.mean}{9.99}", '#import "x" @cite `raw` *bold* //',
        "[U+4E2D][U+6587] Ω é ß [U+1F680]", "[31m",
    ):  # fmt: skip
        assert spaceless(part) in text, part
    assert "root:" not in text
    assert "W" * 300 in text
    assert r"\textbackslash{}input" in paper.source.read_text()
    assert "Conclusion" in read(paper.pdf)


def test_the_same_record_gives_the_same_bytes(press: Press, tmp_path: Path, renderer: Renderer) -> None:
    record = make_record(works=1)
    papers = [press(record, folder=tmp_path / name, renderer=renderer) for name in ("one", "two")]
    for one, two in zip(papers[0].files, papers[1].files, strict=True):
        assert one.name == two.name
        assert one.read_bytes() == two.read_bytes(), one.name


def test_numbers_json_leads_from_each_key_to_its_events(press: Press) -> None:
    paper = press(make_record())
    table = json.loads((paper.source.parent / "numbers.json").read_text())
    by_key = {each["key"]: each for each in table["numbers"]}
    for key in re.findall(r"\\val\{([^{}]+)\}", paper.source.read_text().partition(r"\begin{document}")[2]):
        assert by_key[key]["source"] or by_key[key]["value"] == 0, key
    assert by_key["effect.mean"]["source"] == [
        {"type": "ai.run.stage_metric", "stage": "validation", "about": "effect.mean", "field": "value"}
    ]


@pytest.mark.parametrize(
    ("sizes", "seeds"),
    [
        ((20, 12, 12, 18), 10),
        pytest.param((60, 60, 60, 60), 20, marks=pytest.mark.long("a smaller and a larger one")),
        ((100, 60, 60, 400), 60),
    ],
)
def test_a_huge_run_is_told_on_few_pages_by_showing_less(
    press: Press, read: Read, sizes: tuple[int, ...], seeds: int
) -> None:
    paper = press(make_record(sizes=sizes, units=seeds, works=8, finalists=3))
    assert paper.pages <= typesetter.PAGES_MAX
    assert sum(sizes) > 62 or paper.level == "everything"
    text = read(paper.pdf)
    assert f"over {sum(sizes)} programs" in text
    if paper.level != "everything":
        assert f"the paper shows {paper.level}, to fit 10 pages" in paper.warnings
        assert re.search(r"Only the best of its \d+ nodes are shown; all are in results\.json", text)


def test_levels_are_tried_from_the_most_detail_to_the_least(press: Press) -> None:
    """And where even the least does not fit, the paper is kept, and says so."""

    class Thick:
        """Sets every paper on too many pages."""

        name = "thick"

        def __init__(self) -> None:
            self.sizes: list[int] = []

        def render(self, source: Path) -> Rendered:
            self.sizes.append(len(source.read_text()))
            pdf = source.with_suffix(".pdf")
            pdf.write_bytes(b"%PDF-1.7")
            return Rendered(pdf, 11)

    thick = Thick()
    paper = press(make_record(sizes=(20, 12, 12, 18), works=2), renderer=thick)
    assert len(thick.sizes) == len(LEVELS)
    assert thick.sizes[-1] < thick.sizes[0]
    assert paper.level == "the least"
    assert paper.warnings[0] == "the paper has 11 pages, with the least detail; 10 are allowed"


def test_words_that_type_a_number_are_refused_and_the_paper_is_written_all_the_same(
    press: Press, read: Read
) -> None:
    record = make_record()
    numbers = numbers_of(record)
    prose = write_words(record, numbers)
    prose = replace(
        prose, author="a model", sections={**prose.sections, "results": ["It gained 12.5 points."]}
    )
    paper = press(record, prose=prose, numbers=numbers)
    assert paper.author == AUTHOR
    assert "the words of a model were refused (results, paragraph 1: the number '12.5'" in paper.warnings[0]
    assert "12.5 points" not in read(paper.pdf)


def test_words_of_others_are_printed_with_their_author(press: Press, read: Read) -> None:
    record = make_record()
    numbers = numbers_of(record)
    prose = write_words(record, numbers)
    changed = {**prose.sections, "results": ["The mean difference was {effect.mean}. Doctors confirm it."]}
    paper = press(record, prose=replace(prose, author="a model", sections=changed), numbers=numbers)
    text = read(paper.pdf)
    assert paper.title == numbers.text("title")
    assert "Words: a model; 1 sentence removed: nothing supports it." in text
    assert f"The mean difference was {numbers.text('effect.mean')}." in text
    assert "Doctors" not in text
    (removed,) = [each for each in paper.files if each.name == "removed.json"]
    assert [each["sentence"] for each in json.loads(removed.read_text())] == ["Doctors confirm it."]


def test_a_pdf_that_was_there_before_is_not_taken_for_a_result(
    press: Press, tmp_path: Path, pandoc: PandocTypst
) -> None:
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7 of yesterday")

    class Broken:
        """Makes nothing."""

        name = "broken"

        def render(self, source: Path) -> Rendered:
            source.write_text(source.read_text().replace(r"\section{", r"\undefined{\begin{nothing}"))
            return PandocTypst("/bin/false").render(source)

    with pytest.raises(RenderingFailed, match="pandoc ended with status 1"):
        press(make_record(), renderer=Broken())
    assert not (tmp_path / "paper.pdf").exists()
    assert (tmp_path / "paper.tex").is_file()


def test_a_long_table_has_its_head_once_a_page(press: Press, read: Read) -> None:
    paper = press(make_record(sizes=(20, 2, 2, 3)))
    text = read(paper.pdf)
    assert "Node Plan Validation Node Plan Validation" not in text
    assert text.count("Stage_1/20") >= 1


def record_names() -> dict[str, Record]:
    return {
        "lost": make_record(lost=2),
        "without finalists and curves": make_record(finalists=0, curves=False, sizes=(1, 1, 1, 1)),
        "values": make_record(metric="rmse", effect=-0.02),
        "seconds": make_record(metric="training_seconds"),
        "long names": make_record(params={f"choice_{n}_{'x' * 40}": "y" * 200 for n in range(40)}),
    }


@pytest.mark.parametrize("name", record_names())
def test_every_kind_of_record_makes_a_paper_without_a_warning(name: str, press: Press, read: Read) -> None:
    paper = press(record_names()[name])
    assert [each for each in paper.warnings if not each.startswith("the paper shows")] == []
    text = spaceless(read(paper.pdf))
    missing = [
        each for each in printed(paper.numbers, paper.source.read_text()) if spaceless(each) not in text
    ]
    assert missing == []


@pytest.mark.timeout(60)  # a difference of these takes minutes
def test_a_program_of_very_many_lines_is_shown_whole_and_compared_with_nothing() -> None:
    one, two = ("\n".join(f"{step * number % 250:x}" for number in range(30_000)) for step in (1, 249))
    record = make_record()
    baseline, intervention = record.stage("Stage_2"), record.stage("Stage_3")
    stages = (
        record.stages[0], replace(baseline, best=replace(baseline.best, code=one)),
        replace(intervention, best=replace(intervention.best, code=two)), record.stages[3],
    )  # fmt: skip
    record = replace(record, stages=stages)
    numbers = numbers_of(record)
    document = composed(record, write_words(record, numbers), numbers, (), LEVELS[0], Path())
    listing = document.appendix[-1]
    assert isinstance(listing, Listing)
    assert listing.text == "\n".join(two.split("\n")[: LEVELS[0].code_lines])
