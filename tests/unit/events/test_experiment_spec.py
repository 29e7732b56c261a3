"""Which columns of a table the specification of an experiment may name, before anything is queued."""

from __future__ import annotations

from typing import Any

import pytest

from events.kinds import read_spec
from events.kinds.experiment import KIND, ExperimentSpec
from events.runtime.errors import Rejected


def spec(**fields: Any) -> ExperimentSpec:
    raw = {"idea": "Dropout improves accuracy", "dataset": "visits.csv#ill", **fields}
    found = read_spec("experiment", raw)
    assert isinstance(found, ExperimentSpec)
    return found


@pytest.mark.parametrize("key", ["group", "time"])
def test_a_column_to_split_by_is_one_of_a_file(key: str) -> None:
    assert KIND.check is not None
    assert KIND.check(spec(**{key: "patient"})) is None
    in_words = spec(idea="Dropout improves accuracy on visits.csv#ill", dataset=None, **{key: "patient"})
    assert KIND.check(in_words) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"group": "patient", "dataset": "Breast cancer"}, "`group` is a column of your own table"),
        ({"time": "day", "dataset": None}, "`time` is a column of your own table"),
        ({"group": "patient", "time": "day"}, "name one of them"),
        ({"group": "ill"}, "`group` names what is predicted"),
    ],
)
def test_what_cannot_be_split_by_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        spec(**fields)


@pytest.mark.parametrize("name", ["", "x" * 401])
def test_a_column_has_a_name_of_a_bounded_length(name: str) -> None:
    with pytest.raises(Rejected, match="group"):
        spec(group=name)


def test_what_will_be_measured_says_how_rows_are_split() -> None:
    assert KIND.measures is not None
    assert "Rows of one patient stay on one side of each split." in KIND.measures(spec(group="patient"))
    assert "have a later day than those that are learnt from" in KIND.measures(spec(time="day"))
