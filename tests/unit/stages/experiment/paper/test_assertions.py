"""What a model may assert in a paper, and what is removed from it."""

from __future__ import annotations

import pytest

from stages.experiment.paper.assertions import GENERATED, supported_prose
from stages.experiment.paper.words import write_words
from stages.experiment.record.numbers import numbers_of
from stages.experiment.record.prose import SECTIONS, Prose
from stages.experiment.record.record import Record
from stages.experiment.testing import make_record

# One lie of each kind; the claim is that accuracy becomes higher, it is supported, and one work is cited.
LIES = (
    "This cut the error in half on every data set that is known, as Smith and Jones proved.",
    "A large user study with doctors confirms it.",
    "The accuracy rises by {effect.mean} because the weights become smoother.",
    "The intervention is the best choice for training.",
    "The intervention is better in general, with a mean difference of {effect.mean}.",
    "It is known that the intervention is better than the baseline.",
    "The intervention outperforms the baseline.",
    "The accuracy falls by {effect.mean} on average.",
    "The accuracy doubles, with a mean difference of {effect.mean}.",
    "The mean accuracy of the baseline is {mean.accuracy.intervention}.",
    "The mean accuracy of the baseline, {mean.accuracy.baseline}, is higher than that of the intervention, "
    "{mean.accuracy.intervention}.",
    "The negative log-likelihood falls, with a mean difference of {effect.mean}.",
    "The mean difference is {effect.high}.",
    "The claim is contradicted.",
    "The claim is not supported.",
    "The claim is true.",
    "As {work.0} proved, the accuracy rises on every data set.",
    "{work.0} reports that accuracy rises with the intervention.",
    "The same result holds for other data.",
    "This leads to a better model.",
    "The baseline improves by {effect.mean} on average.",
    "The baseline failed in each unit.",
    "Three programs were tried.",
    "The accuracy is perfect.",
    "The accuracy on ImageNet was measured as well.",
    "The results were reproduced by an independent group.",
    "W\u200be pr\u200boved it.",
    "The \u0430ccuracy is a measure.",
    "The intervention helps, and never hurts.",
    "The accuracy does not fall, with a mean difference of {effect.mean}.",
    "We ask whether the accuracy rises, and it rises.",
    "The intervention is significantly better.",
)
HONEST = (
    "We ask whether the accuracy becomes higher with the intervention.",
    "The accuracy rises by {effect.mean} on average.",
    "The mean accuracy is {mean.accuracy.baseline} with the baseline and {mean.accuracy.intervention} with "
    "the intervention.",
    "The mean accuracy of the intervention, {mean.accuracy.intervention}, is higher than that of the "
    "baseline, {mean.accuracy.baseline}.",
    "The confidence interval goes from {effect.low} to {effect.high}.",
    "The claim is supported.",
    "The table shows what was tried in each stage.",
    "A related question is considered in {work.0}.",
)


def words_of(record: Record, section: str, *sentences: str) -> tuple[str, list[str]]:
    numbers = numbers_of(record)
    usual = write_words(record, numbers)
    prose = Prose(sections={**usual.sections, section: [" ".join(sentences)]}, author="a model")
    kept, removed = supported_prose(record, prose, usual, numbers)
    assert set(kept.sections) == set(SECTIONS)
    assert all(any(text.strip() for text in kept.sections[name]) for name in SECTIONS)
    return " ".join(kept.sections[section]), [each.sentence for each in removed]


@pytest.mark.parametrize("section", ["introduction", "related_work", "results", "conclusion"])
@pytest.mark.parametrize("lie", LIES)
def test_what_nothing_supports_is_not_printed_and_is_listed(lie: str, section: str) -> None:
    printed, removed = words_of(make_record(effect=0.02, works=1), section, HONEST[0], lie)
    assert removed == [lie]
    assert lie not in printed
    assert HONEST[0] in printed


@pytest.mark.parametrize("sentence", HONEST)
def test_what_the_results_say_is_printed(sentence: str) -> None:
    printed, removed = words_of(make_record(effect=0.02, works=1), "results", sentence)
    assert (sentence in printed, removed) == (True, [])


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_nothing_of_a_model_is_printed_where_the_verdict_and_the_method_stand(name: str) -> None:
    record = make_record(effect=0.02)
    printed, removed = words_of(record, name, HONEST[0])
    assert printed == " ".join(write_words(record, numbers_of(record)).sections[name])
    assert removed == [HONEST[0]]


def test_the_generated_conclusion_comes_first() -> None:
    record = make_record(effect=0.02)
    printed, _ = words_of(record, "conclusion", HONEST[1])
    assert printed == " ".join([*write_words(record, numbers_of(record)).sections["conclusion"], HONEST[1]])


def test_no_effect_is_asserted_where_nothing_was_concluded() -> None:
    _, removed = words_of(make_record(effect=0.0), "results", HONEST[1])
    assert removed == [HONEST[1]]


@pytest.mark.parametrize("effect", [0.02, -0.02, 0.0])
def test_the_generated_words_come_out_as_they_are(effect: float) -> None:
    record = make_record(effect=effect, works=3)
    numbers = numbers_of(record)
    usual = write_words(record, numbers)
    assert supported_prose(record, usual, usual, numbers) == (usual, [])


def test_a_sentence_about_a_work_stands_if_its_words_are_in_the_work() -> None:
    record = make_record(effect=0.02, works=1)
    title = record.works[0].title
    printed, removed = words_of(record, "related_work", f"{{work.0}} is about {title.lower().rstrip('.')}.")
    assert (removed, title.lower() in printed) == ([], True)
