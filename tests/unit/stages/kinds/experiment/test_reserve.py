"""The reserve of a data set: rows that only a replication opens."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds.space.data_sets import RESERVE_MIN, SHIPPED, reserve_size
from stages.kinds.experiment.data.columns import Feature, Numbers, Table, Target
from stages.kinds.experiment.data.loading import divided, load_table
from stages.kinds.experiment.data.reserve import reserve_of, without_reserve
from stages.kinds.experiment.judging.disguise import disguise_of
from stages.kinds.experiment.judging.evaluation_set import write_evaluation_set
from stages.kinds.experiment.judging.secret import Secret

ROWS = 1_200


def table_of(rows: int, classes: int = 2, rare: int = 0) -> Table:
    """Return a table whose first feature is the number of its row."""
    labels = np.arange(rows) % classes
    labels[:rare] = classes
    numbers = Feature("row", Numbers("row", np.arange(rows, dtype=float)))
    names = tuple(f"class {each}" for each in range(int(labels.max()) + 1))
    return Table((numbers,), Target("target", "classification", labels, names), None, ())


def rows_in(table: Table) -> set[int]:
    return {int(each) for each in table.features[0].values()}


def test_a_small_set_has_none_and_says_why() -> None:
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        table = load_table(SHIPPED[name])
        found = reserve_of(table, name)
        assert len(found.rows) == 0
        assert f"15% of its {len(table)} rows are fewer than {RESERVE_MIN}" in found.words
        whole = without_reserve(table, found)
        assert (len(whole), whole.notes[-1]) == (len(table), found.words)
        assert SHIPPED[name].open_rows == len(table)


def test_a_set_with_a_rare_class_has_none() -> None:
    assert "of some class" in reserve_of(table_of(ROWS, rare=6), "x").words
    assert len(reserve_of(table_of(ROWS, rare=60), "x").rows) > 0


def test_it_follows_from_the_data_set_alone_and_has_rows_of_each_class() -> None:
    table = load_table(SHIPPED["digits"])
    one, again, other = (reserve_of(table, name).rows for name in ("digits", "digits", "others"))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert abs(len(one) - reserve_size(len(table))) <= 1
    assert np.bincount(table.target.values[one]).min() > 20
    left = without_reserve(table, reserve_of(table, "digits"))
    assert len(left) == len(table) - len(one)
    assert abs(len(left) - SHIPPED["digits"].open_rows) <= 1


@given(seed=st.integers(0, 2**31 - 1))
def test_no_first_split_has_a_row_of_it_and_only_its_rows_judge_a_replication(seed: int) -> None:
    table = table_of(ROWS)
    reserve = reserve_of(table, "x")
    kept = {int(row) for row in reserve.rows}
    left = without_reserve(table, reserve)
    assert rows_in(left) == set(range(ROWS)) - kept
    first = divided(left, "x", seed=seed)
    second = divided(table, "x", seed=seed, reserve=reserve.rows)
    assert sorted(second.places) == list(range(ROWS)), "each row is in one part"
    edges = np.cumsum([0, *(second.sizes[part] for part in ("train", "watch", "validation", "test"))])
    parts = [set(second.places[start:end]) for start, end in pairwise(edges)]
    assert parts[3] < kept, "some of the reserve judge, others do another time"
    assert not (parts[0] | parts[1] | parts[2]) & kept
    assert 2 * len(parts[3]) == pytest.approx(len(kept), abs=2)
    # a program is given the same sizes
    assert [first.sizes[part] for part in ("train", "watch")] == [len(parts[0]), len(parts[1])]
    assert first.sizes["validation"] + first.sizes["test"] == len(parts[2]) + len(parts[3])


def test_each_unit_is_judged_by_rows_of_it_drawn_anew() -> None:
    table = table_of(ROWS)
    reserve = reserve_of(table, "x").rows
    drawn = []
    for seed in (1, 1, 2):
        data = divided(table, "x", seed=seed, reserve=reserve, train_examples=100)
        before = sum(data.sizes[part] for part in ("train", "watch", "validation"))
        drawn.append(set(data.places[before : before + data.sizes["test"]]))
    assert drawn[0] == drawn[1] != drawn[2]


def test_in_disguise_a_replication_looks_as_any_unit_does(tmp_path: Path) -> None:

    folder, secret = tmp_path, Secret("s" * 64)
    table = table_of(ROWS)
    reserve = reserve_of(table, "x")
    shapes = []
    for each, rows in ((without_reserve(table, reserve), None), (table, reserve.rows)):
        plain = divided(each, "x", seed=3, reserve=rows)
        worn = disguise_of(plain, secret, is_public=False).worn(plain)
        judges = write_evaluation_set(folder / str(len(shapes)), worn, secret, 3).test()
        shapes.append(np.load(judges.features).shape)
        assert len(judges.targets) == plain.sizes["test"]
    assert shapes[0] == shapes[1]
