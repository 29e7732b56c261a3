"""How the rows of a run are hidden, and how who knows them all the same is found out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.data.loading import Data, divided, load_table, prepare
from stages.kinds.experiment.judging.disguise import Disguised, Law, disguise_of
from stages.kinds.experiment.judging.evaluation_set import CANARIES, Canaries, Judges, write_evaluation_set
from stages.kinds.experiment.judging.program_output import Mistake
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.validation import (
    TOO_GOOD,
    Judgement,
    Pair,
    Registration,
    doubted,
    judge,
)
from stages.kinds.experiment.trials.units import Units

ONE, OTHER = Secret("one"), Secret("other")
ROWS = 300


def hidden(name: str, secret: Secret = ONE, *, is_public: bool = True) -> Disguised:
    return disguise_of(data := prepare(SHIPPED[name], seed=0), secret, is_public=is_public).worn(data)


def plain(name: str) -> Data:
    return prepare(SHIPPED[name], seed=0)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_secret_gives_the_same_rows_again_and_another_one_gives_others(name: str) -> None:
    one, same, other = (hidden(name, each).data.visible.train for each in (ONE, Secret("one"), OTHER))
    assert (one.features == same.features).all()
    assert (one.targets == same.targets).all()
    assert (one.features != other.features).any()
    assert (one.targets != other.targets).any()


@pytest.mark.parametrize("name", SHIPPED)
def test_no_row_of_a_public_data_set_is_shown_as_it_is_known(name: str) -> None:
    before = plain(name).visible.train
    after = hidden(name).data.visible.train
    assert before.features.shape == after.features.shape
    known = {row.tobytes() for row in before.features}
    assert not any(row.tobytes() in known for row in after.features)
    assert abs(float(after.features.std()) - float(before.features.std())) < 0.05


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_a_canary_cannot_be_told_by_the_rows_that_it_was_made_of(tmp_path: Path, name: str) -> None:
    """On the line between two known rows it would be the one row of the file that lies on such a line."""
    data = hidden(name)
    evaluation_set = write_evaluation_set(tmp_path, data, ONE)
    rows, known = (
        np.load(evaluation_set.features).astype(float),
        data.data.visible.train.features.astype(float),
    )
    nearest = np.full(len(rows), np.inf)
    for one in known:
        ways = known[(known != one).any(axis=1)] - one
        off = rows - one
        shares = np.clip(off @ ways.T / (ways**2).sum(axis=1), 0.4, 0.6)
        gaps = ((off[:, None] - shares[:, :, None] * ways) ** 2).sum(axis=2)
        nearest = np.minimum(nearest, gaps.min(axis=1))
    canaries = np.zeros(len(rows), bool)
    canaries[evaluation_set.order[-len(evaluation_set.sides) :]] = True
    assert np.median(nearest[canaries]) > 0.25 * np.median(nearest[~canaries])


@pytest.mark.parametrize("name", [name for name, each in SHIPPED.items() if each.task == "classification"])
def test_who_knows_the_public_targets_and_the_disguise_knows_no_more_than_the_law(name: str) -> None:
    """Of rows that everybody knows the targets are drawn anew: certainty about them does not pay."""
    before, after = plain(name).sealed.open(), hidden(name)
    names = ONE.chance("classes").permutation(after.data.facts.outputs)
    drawn = after.data.sealed.open().targets
    assert after.test is not None
    assert after.test.probabilities is not None
    looked_up = float((names[before.targets] == drawn).mean())
    best = float(after.test.probabilities.max(axis=1).mean())
    assert 0.75 < looked_up < min(1.0, best + 0.05)
    certain = -np.log(np.where(names[before.targets] == drawn, 1.0, 1e-12)).mean()
    law = -np.log(after.test.probabilities[np.arange(len(drawn)), drawn]).mean()
    assert certain > 2 * law


def test_values_that_everybody_knows_are_drawn_anew() -> None:
    before, after = plain("diabetes").sealed.open(), hidden("diabetes")
    assert after.test is not None
    error = float(np.sqrt(((before.targets - after.data.sealed.open().targets) ** 2).mean()))
    assert error > 1.1 * after.test.deviation


def test_rows_of_ones_own_keep_their_numbers_and_targets() -> None:
    before, after = plain("wine"), hidden("wine", is_public=False)
    assert (after.validation, after.test) == (None, None)
    names = ONE.chance("classes").permutation(3)
    assert (names[before.visible.train.targets] == after.data.visible.train.targets).all()
    assert tuple(after.data.facts.classes[names[old]] for old in range(3)) == before.facts.classes
    for rows in (before.visible.train.features, after.data.visible.train.features):
        assert sorted(np.abs(rows).sum(axis=0).round(2)) == sorted(
            np.abs(before.visible.train.features).sum(axis=0).round(2)
        )


def test_images_stay_images() -> None:
    before, after = plain("digits"), hidden("digits", is_public=False)
    one = before.visible.train.features[0].reshape(8, 8)
    found = after.data.visible.train.features[0].reshape(8, 8)
    turned = [np.rot90(each, quarters) for each in (one, one[:, ::-1]) for quarters in range(4)]
    assert any((each == found).all() for each in turned)


def test_one_file_holds_all_rows_that_judge_in_an_order_that_says_nothing(tmp_path: Path) -> None:
    after = hidden("wine")
    evaluation_set = write_evaluation_set(tmp_path, after, ONE)
    shown = np.load(evaluation_set.features)
    validation, test = evaluation_set.validation, evaluation_set.test()
    assert len(shown) == validation.total == test.total
    assert len(shown) == len(after.data.visible.validation) + len(after.data.sealed.open()) + CANARIES
    numbers = np.concatenate([validation.rows, test.rows, test.canaries.rows])
    assert sorted(numbers) == list(range(len(shown)))
    assert (shown[validation.rows] == after.data.visible.validation.features).all()
    assert (shown[test.rows] == after.data.sealed.open().features).all()
    assert 0.2 < float(np.corrcoef(np.arange(len(numbers)), numbers)[0, 1]) + 0.5 < 0.8


def judges(answers: np.ndarray, targets: np.ndarray, law: Law | None = None) -> Judges:
    sides = np.array([[0, 1], [1, 0]] * 20)
    rows = np.arange(len(targets))
    return Judges(
        Path(), len(answers), rows, targets, Canaries(np.arange(len(targets), len(answers)), sides), law
    )


def test_who_knows_coins_is_found_out_and_who_guesses_is_not() -> None:
    answers = np.full((40, 2), 0.5)
    judging = judges(answers, np.empty(0, dtype=int))
    for hits in range(41):
        answers[:hits] = np.eye(2)[judging.canaries.sides[:hits, 0]]
        if hits < 38:
            judging.judged(answers)
        else:
            with pytest.raises(Mistake, match="a coin decided"):
                judging.judged(answers)


def test_values_beside_coins_are_judged_by_the_side_they_lie_on() -> None:
    judging = judges(np.empty(40), np.empty(0))
    with pytest.raises(Mistake, match="40 of 40"):
        judging.judged(judging.canaries.sides[:, 0] * 0.6 + judging.canaries.sides[:, 1] * 0.4)
    judging.judged(np.zeros(40))


def test_answers_that_fit_drawn_targets_better_than_chance_allows_are_no_answers() -> None:
    chance = np.random.default_rng(0)
    law = chance.dirichlet((5, 1), ROWS)
    targets = (chance.random(ROWS) > law[:, 0]).astype(int)
    padding = np.full((40, 2), 0.5)
    for answers, is_known in ((law, False), (np.full((ROWS, 2), 0.5), False), (np.eye(2)[targets], True)):
        judging = judges(np.zeros((ROWS + 40, 2)), targets, Law(law))
        if is_known:
            with pytest.raises(Mistake, match="better than chance allows"):
                judging.judged(np.concatenate([answers, padding]))
        else:
            assert (judging.judged(np.concatenate([answers, padding])) == answers).all()


def test_values_nearer_to_drawn_targets_than_their_noise_are_no_answers() -> None:
    chance = np.random.default_rng(0)
    means = chance.normal(size=ROWS)
    targets = means + 0.5 * chance.normal(size=ROWS)
    judging = judges(np.zeros(ROWS + 40), targets, Law(means=means, deviation=0.5))
    judging.judged(np.concatenate([means, np.zeros(40)]))
    with pytest.raises(Mistake, match="better than chance allows"):
        judging.judged(np.concatenate([0.5 * means + 0.5 * targets, np.zeros(40)]))


@pytest.mark.parametrize(
    ("metric", "baseline", "intervention", "is_doubted"),
    [
        ("nll", 0.6, 0.2, False), ("nll", 0.6, 1e-6, True), ("accuracy", 0.9, 0.97, False),
        ("accuracy", 0.9, 0.999, True), ("rmse", 60.0, 50.0, False), ("rmse", 60.0, 0.5, True),
        ("brier", 0.1, 0.001, True), ("parameters", 500.0, 1.0, False), ("ece", 0.1, 0.001, False),
    ],
)  # fmt: skip
def test_a_claim_that_is_too_good_is_believed_only_when_it_is_replicated(
    metric: str, baseline: float, intervention: float, is_doubted: bool
) -> None:
    measure = METRICS[metric]
    pairs = [Pair(seed, baseline, baseline * seed * 1e-7 + intervention) for seed in range(10)]
    region = superior("increase" if measure.higher_is_better else "decrease")
    found = judge(pairs, Registration(measure, region, 10, rows=1797, test_rows=540))
    assert found.conclusion == "supported"
    doubts: Judgement = doubted(found, measure)
    expected = ("inconclusive", True) if is_doubted else ("supported", False)
    assert (doubts.conclusion, doubts.reason == TOO_GOOD) == expected


def test_each_split_is_worn_with_the_same_targets_of_a_row_and_the_same_columns() -> None:
    """Of two splits of one table: what is known of a row in one holds of it in the other."""
    table = load_table(SHIPPED["wine"])
    one, other = (divided(table, "wine", seed=seed) for seed in (1, 2))
    disguise = disguise_of(one, ONE, is_public=True)
    first, second = disguise.worn(one), disguise.worn(other)
    targets = [np.empty(len(table), dtype=np.int64) for _ in range(2)]
    for found, data, hidden in zip(targets, (one, other), (first, second), strict=True):
        visible = hidden.data.visible
        parts = (visible.train, visible.watch, visible.validation, hidden.data.sealed.open())
        found[data.places] = np.concatenate([part.targets for part in parts])
    assert (targets[0] == targets[1]).all()
    assert first.test is not None
    assert second.test is not None
    assert first.test.probabilities is not None
    assert second.test.probabilities is not None
    laws = [
        dict(zip(data.places[-53:], law.probabilities, strict=True))
        for data, law in ((one, first.test), (other, second.test))
    ]
    both = laws[0].keys() & laws[1].keys()
    assert len(both) > 5
    assert all((laws[0][row] == laws[1][row]).all() for row in both)
    assert len(first.data.visible.train) == len(second.data.visible.train), "sizes tell no split from another"


def test_a_unit_is_written_alike_each_time_and_leaves_no_file(tmp_path: Path) -> None:
    table = load_table(SHIPPED["iris"])
    disguise = disguise_of(divided(table, "iris", seed=0), ONE, is_public=True)
    units = Units(table, "iris", 10, None, METRICS["accuracy"], disguise, ONE, tmp_path)
    shown = []
    for seed in (5, 5, 6):
        with units.opened(seed) as unit:
            shown.append((np.load(unit.judges.features), unit.judges.targets, unit.judges.canaries.rows))
            assert 0.2 < unit.naive < 0.6
            assert {each.name for each in unit.data.parent.iterdir()} == {"data.npz", "judge.npy"}
    assert all((one == other).all() for one, other in zip(shown[0], shown[1], strict=True))
    assert (shown[0][0] != shown[2][0]).any()
    assert (shown[0][2] != shown[2][2]).any(), "canaries lie elsewhere in each unit"
    assert list(tmp_path.iterdir()) == []


def test_rows_that_a_claim_about_few_examples_leaves_out_may_judge_a_unit(tmp_path: Path) -> None:
    table = load_table(SHIPPED["iris"])
    data = divided(table, "iris", seed=0, train_examples=10)
    assert len(data.left) == 60 - len(data.visible.train)
    assert sorted(data.places) == list(range(150))
    hidden = disguise_of(data, ONE, is_public=True).worn(data)
    assert write_evaluation_set(tmp_path, hidden, ONE).mark != ONE.mark, "their targets need another law"
