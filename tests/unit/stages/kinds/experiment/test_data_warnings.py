"""What is said of a table before it is learnt from, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from events.kinds.space.data_sets import SHIPPED
from stages.kinds.experiment.data.columns import Key
from stages.kinds.experiment.data.data_warnings import (
    WARNINGS_MAX,
    balance_warnings,
    column_warnings,
    warnings_of,
)
from stages.kinds.experiment.data.loading import divided, find_data_set, load_table

ROWS = 400
CHANCE = np.random.default_rng(11)
NOISE = [f"{each:.4f}" for each in CHANCE.standard_normal(ROWS)]
LABELS = ["yes" if each > 0 else "no" for each in CHANCE.standard_normal(ROWS)]


def said(
    folder: Path, key: Key | None = None, labels: Sequence[Any] = LABELS, **columns: Sequence[Any]
) -> str:
    """Return the warnings of a table with a column of noise beside others, a line each."""
    named = {"x": NOISE, **columns, "y": labels}
    lines = [",".join(map(str, row)) for row in zip(*named.values(), strict=True)]
    (folder / "t.csv").write_text("\n".join([",".join(named), *lines]) + "\n")
    data_set = find_data_set("t.csv#y", (folder,), key)
    assert data_set is not None
    table = load_table(data_set)
    return "\n".join(warnings_of(table, divided(table, "t", seed=1)))


def test_a_table_without_trouble_is_not_warned_of(tmp_path: Path) -> None:
    colours = CHANCE.choice(["red", "green", "blue"], ROWS)
    counts = CHANCE.integers(0, 30, ROWS)
    assert said(tmp_path, colour=colours, count=counts) == ""


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_no_column_or_class_of_the_sets_that_ship_is_suspect(name: str) -> None:
    table = load_table(SHIPPED[name])
    columns = [] if table.image_side else [each.column for each in table.features]
    assert [*column_warnings(columns, table.target)] == []
    assert [*balance_warnings(table.target, np.arange(len(table)))] == []


@pytest.mark.parametrize(
    ("name", "values", "each"),
    [
        ("patient", [f"P{place // 10}" for place in range(ROWS)], "40 values of 10 rows each"),
        ("who", [f"P{place // 4}" for place in range(ROWS)], "100 values of 4 rows each"),
        ("clinic", CHANCE.integers(100, 120, ROWS), "20 values of 20 rows on average"),
        ("subject_id", CHANCE.permutation(np.arange(ROWS) // 8), "50 values of 8 rows each"),
    ],
)
def test_a_column_that_looks_like_that_of_an_owner_is_proposed_as_group(
    tmp_path: Path, name: str, values: Sequence[Any], each: str
) -> None:
    found = said(tmp_path, **{name: values})
    assert f"Column '{name}' has {each}: say group: {name} if rows of one {name} belong together" in found
    assert "say group" not in said(tmp_path, Key(name, "group"), **{name: values})


def test_a_column_that_looks_like_a_time_is_proposed_as_time(tmp_path: Path) -> None:
    dates = [f"20{place % 20:02d}-0{1 + place % 9}-1{place % 7}" for place in range(ROWS)]
    years = CHANCE.integers(1990, 2020, ROWS)
    found = said(tmp_path, visited=dates, year=years)
    assert "Column 'visited' looks like a time: say time: visited if later rows" in found
    assert "say time: year" in found
    assert said(tmp_path, Key("visited", "time"), visited=dates) == ""


def test_an_identifier_that_grows_with_the_row_is_told(tmp_path: Path) -> None:
    grown = 1000 + np.arange(ROWS) * 3
    assert "Column 'case' grows with the row, as an identifier does" in said(tmp_path, case=grown)
    assert "Column 'left' grows" not in said(tmp_path, left=CHANCE.permutation(grown))


@pytest.mark.parametrize("form", ["number", "code", "text"])
def test_a_column_that_tells_the_target_is_told(tmp_path: Path, form: str) -> None:
    is_ill = np.array([each == "yes" for each in LABELS])
    leak: Any = {
        "number": is_ill * 3 + CHANCE.random(ROWS),
        "code": np.where(is_ill, 5, CHANCE.choice([3, 9], ROWS)),
        "text": np.where(is_ill, "ward", CHANCE.choice(["home", "away"], ROWS)),
    }[form]
    assert "Column 'leak' predicts 'y' nearly alone" in said(tmp_path, leak=leak)
    half = np.where(CHANCE.random(ROWS) < 0.5, leak, CHANCE.permutation(leak))
    assert "nearly alone" not in said(tmp_path, leak=half)


def test_a_copy_of_the_value_that_is_predicted_is_told(tmp_path: Path) -> None:
    price = CHANCE.random(ROWS) * 100
    found = said(tmp_path, labels=price, cents=price * 100 + CHANCE.random(ROWS))
    assert "Column 'cents' predicts 'y' nearly alone" in found


def test_rows_on_both_sides_are_counted(tmp_path: Path) -> None:
    twice = [NOISE[place // 2] for place in range(ROWS)]
    found = said(tmp_path, x=twice, labels=[LABELS[place // 2] for place in range(ROWS)])
    count, _, rest = found.partition(" ")
    assert 50 < int(count) <= 200
    assert "of 200 rows that judge are also, word for word, among those learnt from" in rest


def test_a_rare_class_is_told_with_its_rows_and_what_to_claim(tmp_path: Path) -> None:
    labels = ["yes" if place % 50 == 0 else "no" for place in range(ROWS)]
    assert said(tmp_path, labels=labels) == (
        "Class 'yes' has 8 of 400 rows, and about 2 of the 120 that judge a unit: whoever always answers "
        "'no' has an accuracy of 0.980. Claim the balanced accuracy, the AUROC, or the recall of class yes "
        "instead of the accuracy."
    )
    wordy = ["very ill" if each == "yes" else "no" for each in labels]
    assert "the balanced accuracy or the AUROC instead" in said(tmp_path, labels=wordy)


def test_there_is_an_end_to_what_is_said(tmp_path: Path) -> None:
    columns = {f"case{number}": np.arange(ROWS) * (number + 2) + 5 for number in range(30)}
    found = said(tmp_path, **columns).split("\n")
    assert len(found) == WARNINGS_MAX + 1
    assert found[-1] == "10 more warnings are left out."
