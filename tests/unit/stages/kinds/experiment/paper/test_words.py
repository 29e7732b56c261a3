"""The words of the built-in author, and what is refused of anybody's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stages.kinds.experiment.paper.words import problems_of, verdict_line, write_words
from stages.kinds.experiment.record.numbers import Numbers, numbers_of
from stages.kinds.experiment.record.prose import SECTIONS, Prose
from stages.kinds.experiment.record.record import Record, Verdicts
from stages.kinds.experiment.statistics.looks import looks_of
from stages.kinds.experiment.statistics.several import corrected
from stages.kinds.experiment.statistics.validation import judge
from stages.kinds.experiment.testing import HOSTILE, make_record
from stages.kinds.experiment.tree import UNVARIED

RECORDS: dict[str, dict[str, Any]] = {
    "supported": {"effect": 0.02}, "opposite": {"effect": -0.02}, "nothing there": {"effect": 0.0},
    "lost": {"lost": 2}, "poor": {"curves": False, "finalists": 0, "sizes": (1, 1, 1, 1)},
    "seconds": {"metric": "training_seconds"}, "values": {"metric": "rmse"}, "works": {"works": 3},
    "hostile": {"text": HOSTILE, "works": 2},
}  # fmt: skip


def said(record: Record) -> tuple[Prose, Numbers]:
    numbers = numbers_of(record)
    return write_words(record, numbers), numbers


def resolved(record: Record, section: str) -> str:
    prose, numbers = said(record)
    return numbers.resolved(" ".join(prose.sections[section]))


@pytest.mark.parametrize("name", RECORDS)
def test_the_built_in_words_are_complete_and_would_be_accepted_from_anybody(name: str) -> None:
    record = make_record(**RECORDS[name])
    prose, numbers = said(record)
    assert set(prose.sections) == set(SECTIONS)
    assert problems_of(prose, numbers, len(record.works)) == []


@pytest.mark.parametrize(
    ("effect", "word", "reading"),
    [
        (0.02, "supported", "wholly where the claim holds"),
        (-0.02, "contradicted", "wholly where the claim does not hold"),
        (0.0, "inconclusive", "includes effects with which the claim holds and others"),
    ],
)
def test_every_place_where_a_reader_looks_for_the_verdict_says_the_same(
    effect: float, word: str, reading: str
) -> None:
    record = make_record(effect=effect)
    others = {"supported", "contradicted", "inconclusive"} - {word}
    for section in ("abstract", "validation", "conclusion"):
        text = resolved(record, section)
        assert f"the claim is {word}" in text.lower()
        assert not [other for other in others if f"the claim is {other}" in text.lower()]
    assert reading in resolved(record, "validation")


def test_an_effect_in_the_wrong_direction_and_none_at_all_are_not_told_alike() -> None:
    assert "against the claim" in resolved(make_record(effect=-0.02), "conclusion")
    chance = resolved(make_record(effect=0.0), "conclusion")
    assert "decides nothing" in chance
    assert "does not show that there is no effect" in chance


def test_the_paper_says_what_was_registered_and_what_could_have_been_seen() -> None:
    record = make_record(effect=0.02)
    method, text = resolved(record, "method"), resolved(record, "validation")
    assert "trained again in 10 units, which were registered" in method
    assert "of which 540 judge" in method
    assert "p = " in text
    assert "each judged by 540 rows" in text
    assert "of these rows" in text
    assert "would have been shown in 80\N{NO-BREAK SPACE}% of such validations" in text
    assert "a rate of failures up to 30\N{NO-BREAK SPACE}% cannot be excluded" in text


def test_failures_of_programs_are_counted() -> None:
    record = make_record(effect=0.02)
    first, *rest = record.verdicts.judgement.pairs
    failed = replace(first, intervention=0.0, failed=(False, True))
    judgement = judge([failed, *rest], record.verdicts.judgement.plan)
    text = resolved(replace(record, verdicts=Verdicts((judgement,), {})), "validation")
    assert "In the intervention’s program 1 of 10 units failed, in the baseline’s 0" in text
    assert judgement.conclusion == "inconclusive"


def test_missing_units_give_a_paper_without_an_interval() -> None:
    record = make_record(lost=2)
    prose, numbers = said(record)
    assert problems_of(prose, numbers) == []
    text = resolved(record, "validation")
    assert "8 of 10 registered units gave a result" in text
    assert "{effect" not in text
    assert "the claim is inconclusive" in resolved(record, "conclusion").lower()
    line = verdict_line(record.verdicts)
    assert line == "Inconclusive: fewer units gave a result than were registered."


def test_a_measure_that_cannot_be_searched_for_is_told_apart_from_what_selected() -> None:
    text = resolved(make_record(metric="training_seconds", effect=-0.02), "introduction")
    assert "programs are selected by validation accuracy" in text
    assert "do not repeat exactly" in resolved(make_record(metric="training_seconds"), "validation")


def test_only_works_that_a_look_up_found_are_cited() -> None:
    none, some = make_record(), make_record(works=2)
    assert said(none)[0].cited == ()
    assert "nothing is cited" in resolved(none, "related_work")
    assert said(some)[0].cited == (0, 1)
    assert problems_of(said(some)[0], said(some)[1], works=1) == [
        "`cited` names the work 1, and there are 1, counted from 0",
        "related_work, paragraph 1: nothing is called {work.1}",
    ]


def with_section(prose: Prose, name: str, *paragraphs: str) -> Prose:
    return replace(prose, sections={**prose.sections, name: paragraphs})


@pytest.mark.parametrize(
    ("paragraph", "complaint"),
    [
        ("The accuracy was 0.97.", "the number '0.97.' is typed"),
        ("It rose by ninety percent.", "the number 'ninety percent' is typed"),
        ("It was {effect.maen}.", "nothing is called {effect.maen}"),
        ("As {work.0} says.", "nothing is called {work.0}"),
        ("word " * 600, "2999 characters; at most"),
        ("  ", "the section is empty"),
    ],
)
def test_words_that_type_numbers_or_refer_to_nothing_are_refused(paragraph: str, complaint: str) -> None:
    prose, numbers = said(make_record())
    problems = problems_of(with_section(prose, "results", paragraph.rstrip() or paragraph), numbers)
    assert len(problems) == 1
    assert complaint in problems[0]


def test_a_flood_of_mistakes_is_told_up_to_a_bound() -> None:
    prose, numbers = said(make_record())
    problems = problems_of(with_section(prose, "results", " ".join(map(str, range(10, 400)))), numbers)
    assert len(problems) == 40


def test_an_unknown_section_is_refused() -> None:
    prose, numbers = said(make_record())
    assert (
        "there is no section 'appendix'" in problems_of(with_section(prose, "appendix", "More."), numbers)[0]
    )


def test_a_claim_that_was_judged_more_than_once_says_when_and_at_which_levels() -> None:
    record, (first, second) = make_record(units=20), looks_of(2)
    judgement = record.verdicts.judgement
    plan = replace(judgement.plan, level=second.level, looks=(first, second))
    found = replace(record, verdicts=Verdicts((judge(judgement.pairs, plan),), {}))
    said = "The claim is judged after 10, 20 units, at levels of 0.0100, 0.0125 a side, until it is decided"
    assert said in resolved(found, "method")
    assert "The claim is judged after" not in resolved(record, "method")


def test_several_claims_say_the_p_value_that_decides_each() -> None:
    record = make_record(effect=0.05)
    one = record.verdicts.judgement
    text = resolved(replace(record, verdicts=Verdicts(corrected([one, one]), {})), "validation")
    assert text.count("as one of several claims the p-value of the claim is") == 2
    assert "as one of several" not in resolved(record, "validation")


def test_a_stage_that_had_room_for_the_chosen_program_alone_is_told_to_ablate_nothing() -> None:
    record = make_record(sizes=(3, 5, 5, 2), buggy_share=0.0)
    *searched, last = record.stages
    alone = replace(last, nodes=tuple(replace(each, condition=UNVARIED) for each in last.nodes))
    text = resolved(replace(record, stages=(*searched, alone)), "ablations")
    assert "nothing was ablated" in text
    assert "nothing was ablated" not in resolved(make_record(), "ablations")
