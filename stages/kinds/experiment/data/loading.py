"""Finds the data set that a run names, and splits it: once for the search, once for each unit.

Law: programs are given the labels of the training and the watch rows only. They never see the rows that
judge them, in the search (validation) and at the end (test). The search gets `Visible`, which holds no test
data; only the validation opens `Sealed`. Whatever is computed from values (medians that fill gaps, means
and scales) comes from the training rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from events.kinds.space.data_sets import SHIPPED, DataSet
from events.kinds.space.metrics import Metric, Task
from events.kinds.space.understanding import class_words
from events.runtime.errors import PipelineError
from stages.kinds.experiment.data.columns import NAME_CHARS_MAX, Feature, Key, Numbers, Table, Target, Unfit
from stages.kinds.experiment.data.divisions import WINDOWS_MIN, classes_of, rows_of, units_possible
from stages.kinds.experiment.data.reserve import split_judged_by
from stages.kinds.experiment.data.splits import Rows, split
from stages.kinds.experiment.data.tables import ENDINGS, read_table
from stages.kinds.experiment.seeds import seed_for

STANDARD_MAX: Final = 1e6  # scaled values are cut here: one far outlier must not leave single precision
TRAIN_ROWS_MIN: Final = 2  # of each class, however few examples a claim asks for
SHOWN_CHARS: Final = 200
ORDER: Final = ("train", "watch", "validation", "test", "left")  # of the rows in `Data.places`

_FILE: Final = re.compile(
    r"(?P<path>.*?(?:\.csv|\.csv\.gz|\.npz|\.parquet))(?:#(?P<target>.*))?", re.I | re.S
)
_LOADERS: Final[Mapping[str, Callable[[], Any]]] = {
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "iris": load_iris,
    "diabetes": load_diabetes,
}


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a split: standardised features, and class labels or values in their own unit."""

    features: NDArray[np.float32]
    targets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a trial must know about a data set besides its rows."""

    name: str
    task: Task
    outputs: int
    image_side: int | None
    blank: float  # the standardised value of an empty pixel, which fills what a shift uncovers
    classes: tuple[str, ...]  # their names by label; none where a value is predicted
    feature_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Visible:
    """What the search may look at: rows to learn from, to watch the learning by, and to select by."""

    train: Part
    watch: Part
    validation: Part


@dataclass(frozen=True, slots=True)
class Sealed:
    """The test data, out of the search's reach."""

    _test: Part

    @property
    def features(self) -> NDArray[np.float32]:
        """Return the test rows without their targets."""
        return self._test.features

    def open(self) -> Part:
        """Hand over the test rows with their targets; only who judges does this."""
        return self._test


@dataclass(frozen=True, slots=True)
class Data:
    """One data set, split; `notes` list what was dropped from its file.

    `places` are the rows of the table in the order of train, watch, validation and test, then those of `left`,
    which no part has. So many rows that judge are `repeated` among those learnt from.
    """

    facts: Facts
    visible: Visible
    sealed: Sealed
    left: Part
    places: Rows
    sizes: Mapping[str, int]
    notes: tuple[str, ...]
    repeated: int = 0

    def counted_by(self, metric: Metric) -> int | None:
        """Return by how many rows a measure moves from 0 to 1, where those of a class count; None for others."""
        if not metric.is_by_class or metric.name == "auroc":
            return None
        counts = np.bincount(self.sealed.open().targets, minlength=self.facts.outputs)
        if metric.of_class:
            return int(counts[class_words(self.facts.classes).index(metric.of_class)])
        return int(counts[counts > 0].min()) * int((counts > 0).sum())


def find_data_set(wanted: str | None, folders: tuple[Path, ...], key: Key | None = None) -> DataSet | None:
    """Return the data set that a run names: one that ships, or a file; None where it names none.

    A file is read once to learn its shape; only those inside `folders` are. `key` is the column by which its
    rows are split.
    Raises `PipelineError` with a remedy.
    """
    shipped = None if wanted is None else SHIPPED.get(re.sub(r"[\s_-]+", "_", wanted.strip()).casefold())
    if key is not None and (wanted is None or shipped is not None):
        raise PipelineError("CONFIG", f"`{key.kind}` names a column of a file, and `dataset` names none.")
    if wanted is None or shipped is not None:
        return shipped
    named = _FILE.fullmatch(wanted.strip())
    if named is None:
        raise PipelineError(
            "CONFIG",
            f"The data set {wanted[:SHOWN_CHARS]!r} is unknown. Known are {', '.join(sorted(SHIPPED))}, and "
            f"files that end in {', '.join(ENDINGS)}, such as houses.csv#price.",
        )
    path = _located(named["path"], folders)
    table, digest = read_table(path, named["target"] or "", key)
    with _fit(path.name):
        units_possible(table, WINDOWS_MIN)
        rows_of(table, 0)
    along = table.along
    return DataSet(
        name=_name_of(path),
        task=table.target.task,
        rows=len(table),
        features=len(table.features),
        outputs=len(table.target.classes) or 1,
        image_side=table.image_side,
        location=str(path),
        target=table.target.name,
        digest=digest,
        classes=tuple(each[:NAME_CHARS_MAX] for each in table.target.classes),
        group=along.name if along is not None and along.kind == "group" else "",
        time=along.name if along is not None and along.kind == "time" else "",
    )


@contextmanager
def _fit(name: str) -> Iterator[None]:
    """Let a table that is unfit end as a `PipelineError` with its name."""
    try:
        yield
    except Unfit as error:
        raise PipelineError("CONFIG", f"The data file {name} cannot be used: {error}") from error


def prepare(data_set: DataSet, *, seed: int, train_examples: int | None = None) -> Data:
    """Load `data_set` and split it; equal arguments give equal splits. Raises `PipelineError`."""
    return divided(load_table(data_set), data_set.name, seed=seed, train_examples=train_examples)


def divided(
    table: Table,
    name: str,
    *,
    seed: int,
    train_examples: int | None = None,
    unit: tuple[int, int] = (0, WINDOWS_MIN),
    reserve: Rows | None = None,
) -> Data:
    """Split the table of a data set; equal arguments give equal splits.

    All splits have equal sizes, but those by groups of unequal sizes. `unit` is the place of a unit among how
    many, which a split by time goes by; the first one is that of the search. Where there are rows of a
    `reserve`, they judge, and are nothing else. Raises `PipelineError`.
    """
    target = table.target
    classes = len(target.classes) or 1
    groups = classes_of(table)
    with _fit(name):
        if reserve is None:
            rows = rows_of(table, seed, *unit)
        else:
            rows = split_judged_by(groups, reserve, seed=seed_for(seed, "split"))
    everything = rows["train"]
    if train_examples is not None:
        wanted = max(train_examples, TRAIN_ROWS_MIN * classes)
        rows["train"] = _fewer(everything, groups, wanted, seed_for(seed, "train_examples"))
    scaled, blank, repeated = _scaled(table, rows)
    sizes = {part: len(chosen) for part, chosen in rows.items()}
    rows["left"] = np.setdiff1d(np.arange(len(table)), np.concatenate([*rows.values()]))
    part = {each: Part(scaled[chosen], target.values[chosen]) for each, chosen in rows.items()}
    facts = Facts(
        name=name,
        task=target.task,
        outputs=classes,
        image_side=table.image_side,
        blank=blank,
        classes=target.classes,
        feature_names=tuple(feature.name for feature in table.features),
    )
    return Data(
        facts,
        Visible(part["train"], part["watch"], part["validation"]),
        Sealed(part["test"]),
        part["left"],
        np.concatenate([rows[each] for each in ORDER]),
        sizes,
        table.notes,
        repeated,
    )


def _located(text: str, folders: tuple[Path, ...]) -> Path:
    """Return the file that `text` names, free of links. Raises `PipelineError` for one out of bounds."""
    places = [folder.resolve() for folder in folders]
    if not places:
        raise PipelineError(
            "CONFIG",
            f"The data file {text[:SHOWN_CHARS]!r} is not opened: this pod names no folder whose files runs may "
            "read. Ask whoever runs the pod to set PODFLEET_DATASETS to its folder.",
        )
    looked = ", ".join(str(place) for place in places)
    name = text[:SHOWN_CHARS]
    outside = False
    for place in places:
        try:
            path = (place / text).resolve()  # an absolute path stays what it is
            if not any(path.is_relative_to(folder) for folder in places):
                outside = True  # said whether or not it exists: a run must not learn what lies out there
                continue
            if not path.exists():
                continue
        except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, or no path at all
            raise PipelineError("CONFIG", f"The data file {name!r} cannot be looked up: {error}.") from error
        if not path.name.casefold().endswith(ENDINGS):
            raise PipelineError(
                "CONFIG", f"The data file {name!r} leads to one that does not end in {', '.join(ENDINGS)}."
            )
        return path
    if outside:
        raise PipelineError(
            "CONFIG",
            f"The data file {name!r} is outside of the folders that runs may read on this pod ({looked}). "
            "Name one inside, or ask whoever runs the pod to add its folder to PODFLEET_DATASETS.",
        )
    raise PipelineError(
        "CONFIG",
        f"The data file {name!r} was not found in {looked}. Files are read where the run works: put it there, or "
        "name its whole path on that machine.",
    )


def _name_of(path: Path) -> str:
    """Return the file's name without its ending."""
    ending = max((each for each in ENDINGS if path.name.casefold().endswith(each)), key=len)
    return path.name[: -len(ending)] or path.name


def load_table(data_set: DataSet) -> Table:
    """Load a data set. Raises `PipelineError`, also for a file that has changed since it was found."""
    if not data_set.location:
        return _shipped(data_set)
    path = Path(data_set.location)
    named = data_set.group or data_set.time
    key = Key(named, "group" if data_set.group else "time") if named else None
    table, digest = read_table(path, data_set.target, key)
    if digest != data_set.digest:
        raise PipelineError(
            "CONFIG",
            f"The data file {path.name} has changed since the run chose it: its numbers would not belong "
            "together. Start a new run.",
        )
    return table


def _shipped(data_set: DataSet) -> Table:
    """Load a data set that ships with scikit-learn."""
    if data_set.name not in _LOADERS:
        raise PipelineError(
            "CONFIG", f"unknown data set {data_set.name!r}; known: {', '.join(sorted(_LOADERS))}"
        )
    loaded = _LOADERS[data_set.name]()
    has_classes = data_set.task == "classification"
    features = tuple(
        Feature(str(name), Numbers(str(name), loaded.data[:, place]))
        for place, name in enumerate(loaded.feature_names)
    )
    classes = tuple(str(name) for name in loaded.target_names) if has_classes else ()
    targets = loaded.target.astype(np.int64 if has_classes else np.float64)
    return Table(features, Target("target", data_set.task, targets, classes), data_set.image_side, ())


def _fewer(train: NDArray[np.int64], groups: NDArray[Any], wanted: int, seed: int) -> NDArray[np.int64]:
    """Return about `wanted` of the training rows, their classes in proportion."""
    if wanted >= len(train):
        return train
    share = wanted / len(train)
    shares = {"kept": share, "left": 1.0 - share}
    return train[split(groups[train], seed=seed, shares=shares, needed=("kept",))["kept"]]


def _scaled(table: Table, rows: Mapping[str, NDArray[np.int64]]) -> tuple[NDArray[np.float32], float, int]:
    """Return the features, scaled by the training rows alone; the value of an empty pixel; how many
    rows that judge repeat one that is learnt from."""
    train = rows["train"]
    scaled = np.empty((len(table), len(table.features)), dtype=np.float32)
    # Equal rows get equal sums of randomly weighted features, and others in all likelihood do not.
    weights = np.random.default_rng(0).standard_normal(len(table.features) + 1)
    mark = table.target.values * weights[-1]
    for place, feature in enumerate(table.features):
        values = feature.values()
        known = values[train]
        known = known[np.isfinite(known)]
        if len(known) < len(train) or np.isnan(values).any():
            values[np.isnan(values)] = np.median(known) if len(known) else 0.0
        column = values if table.image_side else _standardised(values, train)
        scaled[:, place] = column
        mark = mark + scaled[:, place] * weights[place]
    blank = 0.0
    if table.image_side:  # pixels share one scale: an image is more than its single pixels
        mean = float(scaled[train].mean(dtype=np.float64))
        scale = float(scaled[train].std(dtype=np.float64)) or 1.0
        with np.errstate(over="ignore"):
            scaled -= np.float32(mean)
            scaled /= np.float32(scale)
        np.clip(scaled, -STANDARD_MAX, STANDARD_MAX, out=scaled)
        blank = -mean / scale
    learnt = np.concatenate([train, rows["watch"]])
    judging = np.concatenate([rows["validation"], rows["test"]])
    return scaled, blank, int(np.isin(mark[judging], mark[learnt]).sum())


def _standardised(values: NDArray[np.float64], train: NDArray[np.int64]) -> NDArray[np.float64]:
    known = values[train]
    mean, scale = known.mean(), known.std()
    with np.errstate(over="ignore"):  # what overflows is cut
        standardised: NDArray[np.float64] = (values - mean) / (scale if scale > 0 else 1.0)
    return np.clip(standardised, -STANDARD_MAX, STANDARD_MAX, out=standardised)
