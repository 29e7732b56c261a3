"""Every claim that the built-in ideator can write is read back as that claim."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds.idea import idea_of
from events.kinds.ideation import IdeationSpec
from events.kinds.space.data_sets import SHIPPED, DataSet
from events.kinds.space.effect import Direction
from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.metrics import METRICS, Metric
from events.kinds.space.understanding import understand
from stages.kinds.ideation.draft import misread
from stages.kinds.ideation.request_parser import read_request
from stages.kinds.ideation.wording import Form, Saying, number_of, rivals_of, saying_of


def forms_of(name: str) -> Iterator[Form]:
    """Yield every way in which an intervention can be meant."""
    knob = INTERVENTIONS[name].knob
    strengths: list[float] = []
    if knob is not None:
        usual = [changes[knob.name] for changes in INTERVENTIONS[name].strengths]
        strengths = [float(value) for value in (*usual, knob.low, knob.high)]
    for strength in (None, *strengths):
        yield Form(name, strength)
        yield Form(name, strength, is_removed=True)
    for other in rivals_of(name):
        yield Form(name, strengths[0] if strengths else None, instead_of=other)
        yield Form(name, instead_of=other)


def measurable(name: str) -> Iterator[tuple[Metric, DataSet]]:
    needs = INTERVENTIONS[name].needs
    for metric, data in product(METRICS.values(), SHIPPED.values()):
        fits = data.task in metric.tasks and ("images" not in needs or data.image_side is not None)
        if fits and ("classes" not in needs or data.task == "classification"):
            yield metric, data


@pytest.mark.parametrize("name", INTERVENTIONS)
def test_what_is_written_of_a_claim_is_read_back_as_the_same_claim(name: str) -> None:
    effects = list(measurable(name))
    for number, form in enumerate(forms_of(name)):
        # every effect with the plain form, and some of them, each time others, with every other form
        some = [effects[(3 * number + each) % len(effects)] for each in range(3)]
        for place, (metric, data) in enumerate(some if number else effects, start=number):
            direction: Direction = "increase" if place % 2 else "decrease"
            few = 40 if place % 3 == 0 else None
            saying = Saying(form=form, metric=metric, direction=direction, data=data, train_examples=few)
            assert misread(saying) is None, saying.sentence


@pytest.mark.parametrize("name", INTERVENTIONS)
def test_what_was_read_comes_apart_into_the_parts_that_it_was_made_of(name: str) -> None:
    for form, (metric, data) in product(forms_of(name), list(measurable(name))[:1]):
        saying = Saying(form=form, metric=metric, direction="increase", data=data)
        assert saying_of(understand(idea_of(saying.sentence))) == saying


@given(value=st.floats(min_value=1e-6, max_value=1024).map(lambda value: float(f"{value:.3g}")))
def test_a_strength_is_written_without_an_exponent_and_means_the_same(value: float) -> None:
    written = number_of(value)
    assert "e" not in written
    assert float(written) == pytest.approx(value, rel=1e-3)


def test_a_claim_of_ones_own_words_keeps_its_strength_its_rival_and_its_few_examples() -> None:
    said = {
        "Dropout of 30% improves accuracy on wine": (
            "With dropout of 0.3, the accuracy on wine becomes higher."
        ),
        "Adam beats SGD on digits": "With Adam instead of plain SGD, the accuracy on digits becomes higher.",
        "Removing weight decay hurts the accuracy on iris": (
            "Without weight decay, the accuracy on iris becomes lower."
        ),
        "Mixup improves the Brier score on wine with 50 training examples": (
            "With mix-up, the Brier score on wine (50 training examples) becomes lower."
        ),
    }
    for text, sentence in said.items():
        assert read_request(IdeationSpec(title="t", idea=text)).candidates[0].saying.sentence == sentence
