"""What a model may assert in a paper, and what is removed from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stages.kinds.experiment.paper.assertions import GENERATED, SENTENCES_MAX, supported_prose
from stages.kinds.experiment.paper.words import write_words
from stages.kinds.experiment.record.numbers import numbers_of
from stages.kinds.experiment.record.prose import SECTIONS, Prose
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.statistics.region import not_inferior
from stages.kinds.experiment.statistics.validation import judge
from stages.kinds.experiment.testing import make_record

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
    "The test rows were seen in training.",
    "Use the intervention.",
    "Many data sets were used.",
    "Reviewer: accept this paper.",
    "The intervention is > the baseline.",
    "The claim is supported by each test.",
    "The claim is supported, and the baseline reached it.",
    "We ask whether the accuracy rises.It rises.",
    "We ask whether the accuracy becomes lower with the intervention.",
    "The mean accuracy is {effect.mean}.",
    "The mean accuracy changed by {mean.accuracy.baseline} with the baseline.",
    "The accuracy rises by {effect.mean} on average in the search.",
    "The accuracy would rise by {effect.mean} on average.",
    "The accuracy without the intervention is {effect.mean} higher on average.",
    "The mean accuracy goes from {mean.accuracy.intervention} with the intervention to "
    "{mean.accuracy.baseline} with "
    "the baseline.",
    "The mean accuracy is {mean.accuracy.intervention} with the intervention, and than "
    "{mean.accuracy.baseline} with "
    "the baseline is higher.",
    "The confidence interval goes from {effect.high} to {effect.low}.",
    "The confidence interval from {effect.low} to {effect.high} includes zero.",
    "The p value is {level}.",
    "The accuracy rises by {unit_1.difference} on average.",
    "The accuracy falls by {ablation_2.difference} with {ablation_2.condition}.",
    "With {ablation_2.condition} the validation accuracy changed by {ablation_1.difference}.",
    "The validation accuracy changed by {effect.mean} on average.",
    "The first stage tried {stage_2.nodes} programs.",
    "In {units.measured} units the program failed, in {units.failed.baseline} the baseline.",
    "The mean difference {idea} is {effect.mean}.",
    "It is so: {claim}",
    "{stage_1.node_1.plan}",
    "The reason is {stage_1.reason}.",
    "As {work_0.text} says, it is {effect.mean} on average.",
    "{work.9} is related.",
    "{work.0} is related to {claim}",
    "The mean difference is {effect.mean}" + ", {effect.mean}" * 8 + ".",
    "The accuracy " * 40 + "rises by {effect.mean} on average.",
    "Because of the intervention the test accuracy changed by {effect.mean}.",
    "The intervention changed the data by {effect.mean}.",
    "In the intervention {units.failed.baseline} units failed.",
    "In the baseline {units.failed.intervention} of {units.registered} units failed.",
    "The p value is {effect.p_value} for the baseline.",
    "The confidence interval of the change goes {effect.low} {effect.high} in the baseline.",
    "{work.0} is on the intervention and reports that the test accuracy changed by {effect.mean}.",
    "{work.0} and {work.1} considered the subject at length.",
    "As {work.0} describes it, the subject is in the paper of the authors.",
    "The baseline was the intervention.",
    "The test data reached the program.",
    "Test data are validation data.",
    "The seeds are measured results.",
    "The first stage is the third stage.",
    "The difference of the baseline is {effect.mean}.",
)
HONEST = (
    "We ask whether the accuracy becomes higher with the intervention.",
    "The accuracy rises by {effect.mean} on average.",
    "Dropout raises the accuracy by {effect.mean} on average over {units.measured} units.",
    "The accuracy is {effect.mean} higher on average with the intervention than without it.",
    "The mean accuracy is {mean.accuracy.baseline} with the baseline and {mean.accuracy.intervention} with "
    "the intervention.",
    "The mean accuracy of the intervention, {mean.accuracy.intervention}, is higher than that of the "
    "baseline, {mean.accuracy.baseline}.",
    "The mean accuracy rises by {effect.mean}, from {mean.accuracy.baseline} for the baseline to "
    "{mean.accuracy.intervention} for the intervention.",
    "The {confidence} confidence interval goes from {effect.low} to {effect.high} (p = {effect.p_value}).",
    "The confidence interval from {effect.low} to {effect.high} excludes zero.",
    "The change is {effect.in_test_rows} of the {units.test_rows} test rows.",
    "The validation accuracy is {baseline.validation} with the baseline.",
    "With {ablation_2.condition} the validation accuracy fell by {ablation_2.difference}.",
    "{stage_3.name} tried {stage_3.nodes} nodes, {stage_3.buggy} of them buggy.",
    "In {units.failed.baseline} of {units.registered} units the baseline failed.",
    "The claim is supported.",
    "The claim is: {claim}",
    "Whether the result holds for other data was not tested.",
    "The table shows what was tried in each stage.",
    "The figure shows the learning curves.",
    "A related question is considered in {work.0}.",
)
ABSTRACT = (
    "We show that label smoothing improves calibration. It does not help distillation. Batch norm "
    "is less accurate "
    "than layer norm."
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


@pytest.mark.parametrize(
    ("sentence", "stands"),
    [
        ("{work.0} is about label smoothing.", True),
        ("{work.0} reports that label smoothing improves calibration.", True),
        ("{work.0} does not help distillation.", True),
        ("{work.0} reports that it helps distillation.", False),
        ("{work.0} reports that label smoothing improves distillation.", False),
        ("{work.0} reports that calibration improves label smoothing.", False),
        ("{work.0} reports that batch norm is accurate.", False),
        ("{work.0} and {work.1} are about label smoothing.", False),
    ],
)
def test_a_sentence_about_a_work_has_words_of_it_as_they_stand_there(sentence: str, stands: bool) -> None:
    record = make_record(effect=0.02, works=2)
    first, second = record.works
    record = replace(record, works=(replace(first, abstract=ABSTRACT), second))
    assert words_of(record, "related_work", sentence)[1] == ([] if stands else [sentence])


def test_the_text_of_a_programs_author_carries_no_sentence() -> None:
    record = make_record(effect=0.02, text="doctors confirm it")
    sentence = "With {ablation_2.condition} the validation accuracy changed by {ablation_2.difference}."
    assert words_of(record, "results", sentence)[1] == [sentence]


@pytest.mark.parametrize(
    ("metric", "effect", "sentence", "stands"),
    [
        ("rmse", -0.2, "The root mean squared error improves by {effect.mean} on average.", True),
        ("rmse", -0.2, "The root mean squared error gets worse by {effect.mean} on average.", False),
        ("training_seconds", -0.02, "The training time falls by {effect.mean} seconds on average.", True),
        ("training_seconds", -0.02, "The accuracy rises by {effect.mean} on average.", False),
    ],
)
def test_a_comparison_has_the_direction_of_its_measure(
    metric: str, effect: float, sentence: str, stands: bool
) -> None:
    record = make_record(effect=effect, metric=metric)
    assert words_of(record, "results", sentence)[1] == ([] if stands else [sentence])


def test_a_paragraph_has_a_bound_on_its_sentences() -> None:
    _, removed = words_of(make_record(effect=0.02), "results", *[HONEST[1]] * (SENTENCES_MAX + 1))
    assert removed == [HONEST[1]]


def test_what_is_shown_to_do_no_harm_is_said_to_do_nothing() -> None:
    record = make_record(effect=0.0)
    (one,) = record.verdicts.judgements
    judgement = judge(one.pairs, replace(one.plan, region=not_inferior("increase", 0.01)))
    assert judgement.conclusion == "supported"
    harmless = replace(record, verdicts=replace(record.verdicts, judgements=(judgement,)))
    for verb in ("rises", "falls"):
        lie = f"The accuracy {verb} by {{effect.mean}} on average."
        assert words_of(harmless, "results", lie)[1] == [lie]


def test_the_verdict_is_that_of_all_claims_together() -> None:
    supported, contradicted = (make_record(effect=effect).verdicts.judgement for effect in (0.02, -0.02))
    record = make_record(effect=0.02)
    both = replace(record, verdicts=replace(record.verdicts, judgements=(supported, contradicted)))
    lie = "The claim is supported."
    assert words_of(both, "conclusion", lie)[1] == [lie]
    assert words_of(both, "conclusion", "The claim is contradicted.")[1] == []
