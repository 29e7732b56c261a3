"""Which effect a sentence claims, by which margin, and how that is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from events.kinds.idea import idea_of
from events.kinds.space.claim import Claim
from events.kinds.space.effect import Effect
from events.kinds.space.measuring import SEEN, measured
from events.kinds.space.metrics import METRICS
from events.kinds.space.understanding import understand
from events.runtime.errors import NotMeasurable

MEASURED = [
    "Dropout improves accuracy on wine by at least 2 points",
    "Dropout lowers the loss by more than 0.1 with 300 training examples",
    "Dropout does not hurt accuracy",
    "Dropout has no effect on calibration",
    "Dropout lowers accuracy by at most half a point",
    "Wider networks do not have more parameters",
    "Batch norm speeds up training by at least 0.5 seconds but does not reduce accuracy",
    "Adam raises accuracy and lowers the loss and does not change the Brier score",
]
ACCURACY, LOSS = METRICS["accuracy"], METRICS["nll"]


def claim_of(sentence: str) -> Claim:
    return understand(idea_of(sentence)).claim


@pytest.mark.parametrize(
    ("sentence", "effect"),
    [
        ("Dropout improves accuracy", Effect(ACCURACY, "increase")),
        ("Dropout improves accuracy by at least 2 points", Effect(ACCURACY, "increase", margin=0.02)),
        ("Dropout lowers the loss by more than 0.1", Effect(LOSS, "decrease", margin=0.1)),
        ("Dropout does not hurt accuracy", Effect(ACCURACY, "increase", "not_inferior", 0.01, True)),
        ("Dropout is no worse", Effect(ACCURACY, "increase", "not_inferior", 0.01, True)),
        ("Dropout does not improve accuracy", Effect(ACCURACY, "decrease", "not_inferior", 0.01, True)),
        ("Dropout does not raise the loss", Effect(LOSS, "decrease", "not_inferior", 0.02, True)),
        ("Dropout lowers accuracy by at most 3 points", Effect(ACCURACY, "increase", "not_inferior", 0.03)),
        (
            "Dropout does not lower accuracy by more than 3 points",
            Effect(ACCURACY, "increase", "not_inferior", 0.03),
        ),
        ("Dropout has no effect on accuracy", Effect(ACCURACY, "increase", "equivalent", 0.01, True)),
        ("Dropout does not change the loss", Effect(LOSS, "decrease", "equivalent", 0.02, True)),
        ("Dropout changes the loss by less than 0.3", Effect(LOSS, "decrease", "equivalent", 0.3)),
    ],
)
def test_a_sentence_claims_one_effect(sentence: str, effect: Effect) -> None:
    found = claim_of(sentence).effects
    assert [(each.metric, each.direction, each.kind, each.is_default) for each in found] == [
        (effect.metric, effect.direction, effect.kind, effect.is_default)
    ]
    assert found[0].margin == pytest.approx(effect.margin)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_measure_has_a_smallest_effect_of_interest_or_asks_for_one(metric: str) -> None:
    measure = METRICS[metric.name]  # type: ignore[attr-defined]
    on = "diabetes" if measure.tasks == {"regression"} else "digits"
    sentence = f"With dropout, the {measure.title} on {on} does not change"
    if measure.margin is None:
        with pytest.raises(NotMeasurable, match="has no default"):
            claim_of(sentence)
    else:
        assert claim_of(sentence).effects[0].margin == measure.margin
        assert "(the default margin)" in claim_of(sentence).sentence


def test_what_will_be_measured_names_the_margin_and_whose_it_is() -> None:
    assert "becomes higher by at least 2 points." in measured(
        idea_of("Dropout improves accuracy on digits by at least 2 points"), None
    )
    told = measured(idea_of("Dropout does not hurt accuracy on digits"), None)
    assert "does not become lower by 1 point or more (the default margin)." in told
    file = measured(idea_of("Dropout does not hurt accuracy"), "mine.csv#label")
    assert "1 point or more (the default margin)" in file


@pytest.mark.parametrize(
    ("sentence", "looks", "said"),
    [
        ("Dropout improves accuracy on digits", 1, "With 10 units, 80 % of such runs would show an effect"),
        ("Dropout improves accuracy on digits", 2, "With up to 20 units"),
        ("Dropout improves calibration but does not hurt accuracy on wine", 3, "With up to 40 units"),
        ("Dropout improves calibration on digits", 1, "2.9 standard deviations"),
        ("Dropout improves accuracy on digits with 50 examples", 2, "2.5 standard deviations"),
        ("Dropout reduces RMSE on diabetes", 3, "2.3 standard deviations"),
    ],
)
def test_which_effect_can_be_seen_is_told_before_the_run(sentence: str, looks: int, said: str) -> None:
    told = measured(idea_of(sentence), None, looks)
    assert said in told
    assert told.count("80 %") == 1
    file = measured(idea_of("Dropout improves accuracy"), "mine.csv#label", looks)
    assert (file.count("80 %"), "standard deviations" in file) == (1, True)


def test_more_looks_let_a_smaller_effect_be_seen() -> None:
    told = (measured(idea_of("Dropout improves accuracy on wine"), None, looks) for looks in SEEN)
    points = [float(each.split(" points from")[0].split()[-1]) for each in told]
    assert points == sorted(points, reverse=True)
    assert points[0] == pytest.approx(7.7, abs=0.05)


def test_a_change_that_is_less_than_a_row_is_told_to_be_out_of_reach() -> None:
    (note,) = claim_of("Dropout has no effect on accuracy on wine").notes
    assert "Of the 53 rows that judge, one is more than 1 point" in note
    assert claim_of("Dropout does not change accuracy by more than 2 points on wine").notes == ()


def test_a_sentence_may_claim_several_effects_of_the_same_arms() -> None:
    claim = claim_of("Label smoothing improves calibration on wine but does not reduce accuracy")
    assert [(each.metric.name, each.kind) for each in claim.effects] == [
        ("ece", "superior"),
        ("accuracy", "not_inferior"),
    ]
    assert claim.sentence == (
        "With label smoothing, the expected calibration error on wine becomes lower, and the accuracy does "
        "not become lower by 1 point or more (the default margin)."
    )
    assert claim.question == (
        "Does the expected calibration error on wine become lower, and does the accuracy become lower by 1 "
        "point or more, with label smoothing?"
    )


def test_what_will_be_measured_is_read_as_what_it_says() -> None:
    told = [claim_of(sentence) for sentence in MEASURED]
    for claim in told:
        again = claim_of(claim.sentence)
        assert again.effects == tuple(replace(each, is_default=False) for each in claim.effects)
        assert (again.data, again.train_examples) == (claim.data, claim.train_examples)


@pytest.mark.parametrize(
    "sentence",
    [
        "Dropout raises accuracy and lowers accuracy",
        "Dropout improves accuracy on digits and lowers the loss on wine",
        "Dropout does not improve accuracy and lowers the loss",
        "Dropout improves accuracy and Adam lowers the loss",
        "Dropout improves accuracy and the loss by at least 0.1",
        "Dropout improves accuracy and perhaps calibration",
    ],
)
def test_what_two_claims_share_must_be_clear(sentence: str) -> None:
    with pytest.raises(NotMeasurable):
        claim_of(sentence)
