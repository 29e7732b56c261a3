"""Which data set a run gets, how its rows are split, and what may not leak between the parts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.kinds.space.data_sets import SHIPPED, DataSet
from events.runtime.errors import PipelineError
from stages.kinds.experiment.data.loading import Data, Part, find_data_set, prepare
from stages.kinds.experiment.data.splits import NEEDED, SHARES, split

ROWS = 100
HEADING = "x,kind\n"


def found(wanted: str, *folders: Path) -> DataSet:
    # the folder of a file that is named by its whole path is one that is allowed
    allowed = folders or (Path(wanted.partition("#")[0]).parent,)
    data_set = find_data_set(wanted, allowed)
    assert data_set is not None
    return data_set


def refusal(wanted: str, *folders: Path) -> str:
    with pytest.raises(PipelineError) as caught:
        find_data_set(wanted, folders)
    assert caught.value.code == "CONFIG"
    return caught.value.message


def make_file(path: Path, rows: int = ROWS) -> Path:
    """Write a table whose numbers count the rows in halves, so that each row can be told."""
    path.write_text(HEADING + "".join(f"{row / 2},{'no' if row % 4 else 'yes'}\n" for row in range(rows)))
    return path


def parts(data: Data) -> dict[str, Part]:
    visible = data.visible
    return {
        "train": visible.train,
        "watch": visible.watch,
        "validation": visible.validation,
        "test": data.sealed.open(),
    }


# which data set


def test_a_run_that_names_none_gets_none() -> None:
    assert find_data_set(None, ()) is None


@pytest.mark.parametrize("wanted", ["breast_cancer", "Breast cancer", " breast-cancer ", "BREAST  CANCER"])
def test_a_shipped_name_is_understood_as_people_write_it(wanted: str) -> None:
    assert found(wanted) is SHIPPED["breast_cancer"]


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_what_is_said_of_a_shipped_data_set_is_so(name: str) -> None:
    said, data = SHIPPED[name], prepare(SHIPPED[name], seed=0)
    assert sum(data.sizes.values()) == said.rows
    assert data.visible.train.features.shape[1] == len(data.facts.feature_names) == said.features
    assert (data.facts.task, data.facts.outputs, data.facts.image_side) == (
        said.task, said.outputs, said.image_side,
    )  # fmt: skip
    assert len(data.facts.classes) == (said.outputs if said.task == "classification" else 0)


@pytest.mark.parametrize("wanted", ["", "houses", "houses.xlsx", "../secret", "a.csv.zip", "#kind", ".csv2"])
def test_an_unknown_name_is_told_what_is_known(wanted: str) -> None:
    message = refusal(wanted)
    assert "breast_cancer, diabetes, digits, iris, wine" in message
    assert ".csv, .csv.gz, .npz, .parquet" in message


def test_a_file_is_found_by_its_whole_path(tmp_path: Path) -> None:
    path = make_file(tmp_path / "Big_houses.CSV")
    assert found(f"{path}#Kind", tmp_path) == DataSet(
        name="Big_houses",
        task="classification",
        rows=ROWS,
        features=1,
        outputs=2,
        location=str(path),
        target="kind",
        digest=found(str(path), tmp_path).digest,
    )


def test_without_a_named_folder_no_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = make_file(tmp_path / "t.csv")
    said = {refusal(wanted).replace(wanted, "") for wanted in ("t.csv", str(path), "missing.csv")}
    assert len(said) == 1, "whether it exists is not told"
    assert "PODFLEET_DATASETS" in said.pop()


def test_a_relative_path_is_looked_up_in_each_allowed_folder(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    (two / "inner").mkdir(parents=True)
    make_file(two / "inner" / "t.csv")
    assert found("inner/t.csv", one, two).location == str(two / "inner" / "t.csv")
    assert found(str(two / "inner" / "t.csv"), one, two).name == "t"
    message = refusal("none.csv", one, two)
    assert str(one) in message
    assert str(two) in message


@pytest.mark.parametrize("exists", [True, False])
def test_what_lies_outside_the_allowed_folders_is_not_even_looked_at(tmp_path: Path, exists: bool) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "allowed-not"
    allowed.mkdir()
    outside.mkdir()
    if exists:
        make_file(outside / "t.csv")
    (allowed / "link.csv").symlink_to(outside / "t.csv")
    for wanted in (str(outside / "t.csv"), "../allowed-not/t.csv", "link.csv"):
        message = refusal(wanted, allowed)
        assert "outside of the folders" in message
        assert "PODFLEET_DATASETS" in message


def test_an_allowed_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    make_file(tmp_path / "real" / "t.csv")
    assert found("t.csv", tmp_path / "link").location == str(tmp_path / "real" / "t.csv")


def test_a_link_does_not_lend_its_ending(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x,y\n1,2\n")
    (tmp_path / "t.csv").symlink_to(tmp_path / "secret.txt")
    assert "does not end in" in refusal(str(tmp_path / "t.csv"), tmp_path)


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000, "loop", "\udc80"])
def test_a_path_that_cannot_be_one_is_refused_in_words(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    assert "The data file" in refusal(f"{name}.csv", tmp_path)


def test_a_file_that_may_not_be_read_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_file(tmp_path / "t.csv")

    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)  # tests may run as a user who may read everything
    assert "cannot be read: Permission denied" in refusal(str(path), tmp_path)


def test_a_column_may_be_called_like_a_file(tmp_path: Path) -> None:
    path = make_file(tmp_path / "odd#name.csv")
    path.write_text(path.read_text().replace("kind", "old.csv", 1))
    assert found(f"{path}#old.csv", tmp_path).target == "old.csv"


# the split


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(3, 60), min_size=1, max_size=20).filter(lambda sizes: sum(sizes) >= 20),
    seed=st.integers(0, 2**31),
)
def test_the_parts_hold_each_row_once_and_each_class_in_proportion(sizes: list[int], seed: int) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    rows = split(groups, seed=seed)
    assert sorted(np.concatenate(list(rows.values())).tolist()) == list(range(len(groups)))
    for name, share in SHARES.items():
        assert len(rows[name]) > 0
        counts = np.bincount(groups[rows[name]], minlength=len(sizes))
        assert np.abs(counts - share * np.array(sizes)).max() <= 2.5
        assert name not in NEEDED or counts.min() >= 1
    again = split(groups, seed=seed)
    assert all(np.array_equal(rows[name], again[name]) for name in SHARES)


def test_the_order_of_the_rows_betrays_nothing() -> None:
    groups = np.repeat([0, 1], 500)  # a file that is sorted by its classes
    for rows in split(groups, seed=1).values():
        assert abs(np.corrcoef(np.arange(len(rows)), groups[rows])[0, 1]) < 0.25


def test_parts_of_a_file_share_no_row(tmp_path: Path) -> None:
    data = prepare(found(f"{make_file(tmp_path / 't.csv')}#x"), seed=4)
    assert data.facts.task == "regression"
    assert data.sizes == {"train": 40, "test": 30, "validation": 20, "watch": 10}
    values = np.concatenate([part.targets for part in parts(data).values()])
    assert sorted(values.tolist()) == [row / 2 for row in range(ROWS)]  # in their own unit, each once


def test_equal_arguments_give_equal_data_and_another_seed_another_split() -> None:
    one, same, other = (prepare(SHIPPED["wine"], seed=seed, train_examples=30) for seed in (7, 7, 8))
    for name, part in parts(one).items():
        assert np.array_equal(part.features, parts(same)[name].features)
        assert np.array_equal(part.targets, parts(same)[name].targets)
        assert not np.array_equal(part.features, parts(other)[name].features)


def test_fewer_training_examples_leave_the_other_parts_alone() -> None:
    full, few = prepare(SHIPPED["digits"], seed=1), prepare(SHIPPED["digits"], seed=1, train_examples=100)
    assert few.sizes == {**full.sizes, "train": 100}
    assert np.bincount(few.visible.train.targets).min() >= 8
    assert np.array_equal(few.sealed.open().targets, full.sealed.open().targets)
    least = prepare(SHIPPED["digits"], seed=1, train_examples=1)
    assert np.bincount(least.visible.train.targets).min() >= 1
    assert prepare(SHIPPED["digits"], seed=1, train_examples=10**9).sizes == full.sizes


# what may not leak


def test_medians_and_scales_come_from_the_training_rows_alone(tmp_path: Path) -> None:
    rows = range(200)
    values = [float(value) for value in np.random.default_rng(0).normal(10, 2, size=len(rows)).round(4)]

    def data_of(numbers: list[float], gaps: set[int]) -> tuple[Data, np.ndarray]:
        cells = ["" if row in gaps else str(numbers[row]) for row in rows]
        path = tmp_path / "t.csv"
        path.write_text("x,goal\n" + "".join(f"{cells[row]},{row + 0.5}\n" for row in rows))
        data = prepare(found(f"{path}#goal"), seed=2)
        return data, (data.visible.train.targets - 0.5).astype(int)

    first, train = data_of(values, set())
    judged = sorted(set(rows) - set(train.tolist()))
    gap = judged[0]
    # Rows that judge become far outliers: were they looked at, every training row would look different.
    spoilt = [value if row in set(train.tolist()) else 1e6 for row, value in enumerate(values)]
    second, same_train = data_of(spoilt, {gap})
    assert np.array_equal(train, same_train)
    assert np.array_equal(first.visible.train.features[:, 0], second.visible.train.features[:, 0])
    known = np.array([values[row] for row in train])
    filled = (np.median(known) - known.mean()) / known.std()
    for part in parts(second).values():
        for features, target in zip(part.features, part.targets, strict=True):
            if target - 0.5 == gap:
                assert features[0] == pytest.approx(filled, abs=1e-5)
                # The training rows have no gap, so the indicator is 0 there and unscaled here.
                assert features[1] == 1.0


def test_training_features_are_standardised() -> None:
    train = prepare(SHIPPED["breast_cancer"], seed=0).visible.train.features
    assert train.dtype == np.float32
    assert np.allclose(train.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(train.std(axis=0), 1, atol=1e-4)


def test_pixels_share_one_scale_and_an_empty_one_is_blank() -> None:
    data = prepare(SHIPPED["digits"], seed=0)
    assert float(data.visible.train.features.min()) == pytest.approx(data.facts.blank)
    assert float(data.visible.train.features.std()) == pytest.approx(1.0, abs=1e-4)


def test_a_far_outlier_stays_a_finite_number(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{1 + row * 1e-12},{row + 0.5}" for row in range(ROWS)]
    rows[3] = "-1e30,3.5"
    path.write_text("x,goal\n" + "\n".join(rows))
    for seed in range(4):
        for part in parts(prepare(found(str(path)), seed=seed)).values():
            assert np.isfinite(part.features).all()


def test_large_numbers_that_differ_little_keep_their_difference(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{1.7e9 + row % 7},{row + 0.5}\n" for row in range(ROWS))
    path.write_text("seconds,goal\n" + rows)
    assert len(np.unique(prepare(found(str(path)), seed=0).visible.train.features)) == 7


def test_rows_that_are_learnt_from_and_judge_as_well_are_told(tmp_path: Path) -> None:
    path = make_file(tmp_path / "t.csv")
    assert prepare(found(str(path)), seed=0).repeated == 0
    lines = path.read_text().splitlines()[1:]
    path.write_text(HEADING + "\n".join(lines + lines))
    data = prepare(found(str(path)), seed=0)
    seen = {
        (float(x), int(y))
        for part in (data.visible.train, data.visible.watch)
        for x, y in zip(part.features[:, 0], part.targets, strict=True)
    }
    repeated = sum(
        (float(x), int(y)) in seen
        for part in (data.visible.validation, data.sealed.open())
        for x, y in zip(part.features[:, 0], part.targets, strict=True)
    )
    assert repeated > 10
    assert data.repeated == repeated


def test_a_file_that_changed_since_it_was_found_is_refused(tmp_path: Path) -> None:
    path = make_file(tmp_path / "t.csv")
    data_set = found(str(path))
    make_file(path, rows=ROWS + 1)
    with pytest.raises(PipelineError, match="has changed since the run chose it"):
        prepare(data_set, seed=0)
