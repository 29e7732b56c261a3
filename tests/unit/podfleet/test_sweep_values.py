"""The values of a sweep on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from podfleet.commands.groups.values import fixed_and_varied, values_of
from podfleet.parameters import Unreadable


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,3", [1, 2, 3]),
        ("1", [1]),
        ("0.1, 1e-3", [0.1, 0.001]),
        ("adam,sgd", ["adam", "sgd"]),
        ("adam,1,true", ["adam", 1, True]),
        ('"a,b",c', ['"a', 'b"', "c"]),
        ('"a,b","c"', ["a,b", "c"]),
        ("[1,2],[3]", [[1, 2], [3]]),
        ('{"a":1}', [{"a": 1}]),
        ("", [""]),
    ],
)
def test_values_are_json_by_commas_else_texts(text: str, values: list[Any]) -> None:
    assert values_of(text) == values


def test_one_value_is_fixed_and_several_vary() -> None:
    spec: dict[str, Any] = {"model": {"depth": 2}}
    assert fixed_and_varied(spec, ["model.lr=0.1", "seconds=1,2"]) == {"seconds": [1, 2]}
    assert spec == {"model": {"depth": 2, "lr": 0.1}}


@pytest.mark.parametrize("pairs", [["seconds"], ["=1,2"], ["a..b=1,2"], ["a=1,2", "a=3,4"]])
def test_what_is_no_parameter_is_refused(pairs: list[str]) -> None:
    with pytest.raises(Unreadable):
        fixed_and_varied({}, pairs)
