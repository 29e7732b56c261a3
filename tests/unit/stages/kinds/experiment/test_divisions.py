"""How a table is divided by groups and by time: nothing is on both sides; what cannot be is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds.space.data_sets import SHARES, DataSet
from events.runtime.errors import PipelineError
from stages.kinds.experiment.data import tables
from stages.kinds.experiment.data.columns import Along, Feature, Key, Numbers, Table, Target
from stages.kinds.experiment.data.divisions import WINDOWS_MIN, pieces_of, rows_of, unit_words, units_possible
from stages.kinds.experiment.data.loading import divided, find_data_set, load_table

UNITS = 10


def make_table(kind: Any, values: Any, labels: Any = None) -> Table:
    values = np.asarray(values)
    labels = np.arange(len(values)) % 2 if labels is None else np.asarray(labels)
    features = (Feature("x", Numbers("x", np.arange(len(values)) * 0.7)),)
    classes = tuple(map(str, np.unique(labels)))
    return Table(
        features, Target("y", "classification", labels, classes), None, (), Along("key", kind, values)
    )


def write(folder: Path, keys: list[Any], labels: list[Any] | None = None) -> str:
    labels = labels or [place % 2 for place in range(len(keys))]
    rows = [
        f"{key},{place * 7 % 89},{label}" for place, (key, label) in enumerate(zip(keys, labels, strict=True))
    ]
    (folder / "t.csv").write_text("\n".join(["key,x,y", *rows]) + "\n")
    return "t.csv#y"


def found(folder: Path, wanted: str, kind: Any, name: str = "key") -> DataSet:
    data_set = find_data_set(wanted, (folder,), Key(name, kind))
    assert data_set is not None
    return data_set


@given(
    sizes=st.lists(st.integers(1, 12), min_size=12, max_size=40),
    seed=st.integers(0, 2**31 - 1),
)
def test_no_group_is_on_two_sides_and_every_row_is_in_one_part(sizes: list[int], seed: int) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    table = make_table("group", groups, np.arange(len(groups)) % 2 if len(groups) > 60 else groups % 2)
    parts = rows_of(table, seed)
    assert sorted(np.concatenate([*parts.values()])) == list(range(len(groups)))
    owners = [set(groups[rows]) for rows in parts.values()]
    assert sum(map(len, owners)) == len(sizes)
    assert all(owners)
    assert all(len(np.unique(table.target.values[parts[part]])) == 2 for part in ("train", "test"))
    judging, there = pieces_of(table) or (0, 0)
    assert (len(owners[[*parts].index("test")]), len(sizes)) == (judging, there)


def test_the_seed_decides_which_groups_judge() -> None:
    groups = np.repeat(np.arange(40), 25)
    table = make_table("group", groups)
    one, same, other = (rows_of(table, seed)["test"] for seed in (1, 1, 2))
    assert one.tolist() == same.tolist()
    assert {*groups[one]} != {*groups[other]}
    assert pieces_of(table) == (12, 40)


def test_groups_of_one_class_each_are_spread_by_their_classes() -> None:
    groups = np.repeat(np.arange(30), 10)
    table = make_table("group", groups, (groups < 6).astype(int))
    for seed in range(20):
        parts = rows_of(table, seed)
        assert len({*groups[parts["test"]]} & {*range(6)}) == 2
        assert len({*groups[parts["train"]]} & {*range(6)}) in (2, 3)


@given(
    rows=st.integers(120, 400),
    ties=st.integers(1, 6),
    seed=st.integers(0, 2**31 - 1),
    units=st.integers(5, 20),
)
def test_whoever_judges_is_later_than_all_that_is_learnt_from(
    rows: int, ties: int, seed: int, units: int
) -> None:
    chance = np.random.default_rng(seed)
    moments = chance.permutation(np.arange(rows) // ties).astype(float)
    table = make_table("time", moments, chance.permutation(np.arange(rows) % 2))
    try:
        count = units_possible(table, units)
    except ValueError:
        return  # too few of a class at some moment
    judged: list[set[float]] = []
    for place in range(count):
        parts = rows_of(table, seed, place, units)
        learnt = moments[np.concatenate([parts["train"], parts["watch"]])]
        for part in ("validation", "test"):
            assert learnt.max() < moments[parts[part]].min()
        assert moments[parts["validation"]].max() < moments[parts["test"]].min()
        judged.append({*moments[parts["test"]]})
    assert sum(map(len, judged)) == len(set().union(*judged)), "no moment judges two units"


def test_the_search_sees_no_row_that_judges_later_units() -> None:
    table = make_table("time", np.arange(1000.0))
    first = rows_of(table, 3, 0, UNITS)
    assert {part: len(rows) for part, rows in first.items()} == {
        "train": 400, "watch": 100, "validation": 200, "test": 30
    }  # fmt: skip
    searched = np.concatenate([first[part] for part in ("train", "watch", "validation")])
    assert searched.max() < min(rows_of(table, 3, place, UNITS)["test"].min() for place in range(UNITS))
    later = rows_of(table, 4, 9, UNITS)
    assert {part: len(rows) for part, rows in later.items()} == {
        part: len(rows) for part, rows in first.items()
    }
    assert later["test"].max() == 999
    assert pieces_of(table) == (300, 1000), "as much in common as random splits have"


def test_where_moments_are_few_there_are_fewer_units_and_none_that_depend() -> None:
    months = np.repeat(np.arange(24.0), 30)
    assert units_possible(make_table("time", months), 20) == 8
    assert units_possible(make_table("time", np.arange(720.0)), 20) == 20
    with pytest.raises(ValueError, match=f"no {WINDOWS_MIN} units can be made"):
        units_possible(make_table("time", np.repeat(np.arange(12.0), 60)), 10)


def test_a_class_that_ends_before_the_last_rows_can_judge_nothing() -> None:
    labels = (np.arange(400) < 100).astype(int) + (np.arange(400) % 2) * (np.arange(400) >= 100) * 0
    with pytest.raises(ValueError, match="every class before and among them"):
        units_possible(make_table("time", np.arange(400.0), labels), 10)


@pytest.mark.parametrize(
    ("keys", "labels", "words"),
    [
        ([1] * 40, None, "has one group only"),
        ([place // 10 for place in range(90)], None, "has 9 groups, and 10 are needed"),
        (
            [place // 4 for place in range(60)],
            [int(p < 4) for p in range(60)],
            "one group of 'key' has alone",
        ),
    ],
)
def test_groups_that_cannot_be_split_are_refused(
    tmp_path: Path, keys: list[Any], labels: Any, words: str
) -> None:
    with pytest.raises(PipelineError, match=words) as caught:
        found(tmp_path, write(tmp_path, keys, labels), "group")
    assert caught.value.code == "CONFIG"


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("group", "patient", "it has no column 'patient'; its columns: 'key', 'x', 'y'"),
        ("time", "key", "holds no times"),
        ("group", "y", "it has no column 'y'; its columns: 'key', 'x'"),
    ],
)
def test_a_column_that_is_not_there_or_not_of_its_kind_is_refused(
    tmp_path: Path, kind: Any, name: str, words: str
) -> None:
    with pytest.raises(PipelineError, match=words) as caught:
        found(tmp_path, write(tmp_path, [f"P{place // 4}" for place in range(80)]), kind, name)
    assert caught.value.code == "CONFIG"


@pytest.mark.parametrize("wanted", [None, "iris"])
def test_rows_that_ship_are_not_split_by_a_column(wanted: str | None) -> None:
    with pytest.raises(PipelineError, match="`group` names a column of a file"):
        find_data_set(wanted, (), Key("key", "group"))


@pytest.mark.parametrize("groups", [20, 300], ids=["few", "more-than-categories"])
def test_the_column_is_no_feature_and_may_have_any_number_of_names(tmp_path: Path, groups: int) -> None:
    keys = [f"P{place % groups}" for place in range(600)]
    keys[17] = ""
    data_set = found(tmp_path, write(tmp_path, keys), "group", "KEY")
    table = load_table(data_set)
    assert (data_set.group, data_set.time, data_set.features) == ("key", "", 1)
    assert table.along is not None
    assert len(np.unique(table.along.values)) == groups
    assert any("1 rows without 'key' were left out" in note for note in table.notes)
    data = divided(table, "t", seed=2)
    owners = np.split(
        table.along.values[data.places], np.cumsum([data.sizes[p] for p in ("train", "watch", "validation")])
    )
    assert sum(len(np.unique(each)) for each in owners) == groups


def test_names_are_told_apart_where_numbers_end_in_the_middle_of_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CHUNK_CELLS", 300)  # of a hundred rows
    keys = [str(place // 2) for place in range(400)]
    keys[-2:] = ["last", "last"]
    data_set = found(tmp_path, write(tmp_path, keys), "group")
    table = load_table(data_set)
    assert table.along is not None
    assert len(np.unique(table.along.values)) == 200


def test_dates_are_read_and_an_archive_may_have_its_groups(tmp_path: Path) -> None:
    dates = [f"2024-{1 + place // 28 % 12:02d}-{1 + place % 28:02d}" for place in range(336)]
    data_set = found(tmp_path, write(tmp_path, dates), "time")
    assert (data_set.time, data_set.group) == ("key", "")
    assert unit_words(data_set).startswith("a window that rolls along key")
    chance = np.random.default_rng(1)
    owners = np.arange(200) // 5
    np.savez(tmp_path / "a.npz", X=chance.random((200, 6, 6)), y=np.arange(200) % 2, patient=owners)
    images = found(tmp_path, "a.npz", "group", "patient")
    assert (images.image_side, images.features, images.group) == (6, 36, "patient")
    with pytest.raises(PipelineError, match="no array 'person'"):
        found(tmp_path, "a.npz", "group", "person")


def test_shares_are_those_of_every_split() -> None:
    parts = rows_of(make_table("group", np.repeat(np.arange(100), 3)), 1)
    assert {part: len(rows) / 300 for part, rows in parts.items()} == pytest.approx(dict(SHARES), abs=0.02)
