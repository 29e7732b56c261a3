"""The values of a sweep on the command line."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from control_plane.server.api.contract.bodies import GROUP_ID
from podfleet.commands.groups.values import Range, example_of, fixed_and_varied, limits_of, plan_of, values_of
from podfleet.kinds.job import start_nodes
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
        ("log(0.001,10)", Range("log", 0.001, 10.0)),
        ("int(1, 8)", Range("int", 1.0, 8.0)),
        ("logs(1,2)", ["logs(1", "2)"]),
    ],
)
def test_values_are_a_range_or_json_by_commas_else_texts(text: str, values: Any) -> None:
    assert values_of(text) == values


def test_one_value_is_fixed_and_several_vary() -> None:
    spec: dict[str, Any] = {"model": {"depth": 2}}
    assert fixed_and_varied(spec, ["model.lr=0.1", "seconds=1,2"]) == {"seconds": [1, 2]}
    assert spec == {"model": {"depth": 2, "lr": 0.1}}


@pytest.mark.parametrize("pairs", [["seconds"], ["=1,2"], ["a..b=1,2"], ["a=1,2", "a=3,4"], ["a=log(x,1)"]])
def test_what_is_no_parameter_is_refused(pairs: list[str]) -> None:
    with pytest.raises(Unreadable):
        fixed_and_varied({}, pairs)


def test_a_plan_is_a_matrix_and_with_a_sampler_a_study() -> None:
    limits = {"parallel": 4, "goal": None, "max_runs": None}
    assert plan_of(None, {"a": [1, 2]}, limits) == {"kind": "matrix", "values": {"a": [1, 2]}, "parallel": 4}
    study = plan_of("tpe", {"a": [1, 2], "b": Range("log", 1.0, 9.0)}, {**limits, "goal": "min:loss"})
    assert study == {
        "kind": "study",
        "sampler": "tpe",
        "space": {"a": {"type": "values", "values": [1, 2]}, "b": {"type": "log", "low": 1.0, "high": 9.0}},
        "goal": "min:loss",
        "max_runs": 40,
        "parallel": 4,
    }


@pytest.mark.parametrize(
    ("study", "varied", "limits", "words"),
    [
        (None, {}, {}, "no parameter varies"),
        ("tpe", {"a": [1, 2]}, {}, "needs a goal"),
        (None, {"a": Range("log", 1.0, 2.0)}, {}, "is a range"),
        (None, {"a": [1, 2]}, {"max_runs": 3}, "--max-runs is of a study"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(
    study: str | None, varied: Any, limits: dict[str, Any], words: str
) -> None:
    with pytest.raises(Unreadable, match=words):
        plan_of(study, varied, limits)


def test_further_fields_of_a_plan_are_json_or_texts_and_dots_lead_into_them() -> None:
    further = ["baseline_every=5", "confirm.top=3", "confirm.repeats=2", 'goal=["max:a", "min:b"]']
    limits = limits_of({"parallel": 2, "goal": None}, "min:loss,keep=25", further)
    assert limits == {
        "parallel": 2, "goal": ["max:a", "min:b"], "baseline_every": 5, "confirm": {"top": 3, "repeats": 2},
        "prune": {"by": "min:loss", "keep_percent": 25},
    }  # fmt: skip
    with pytest.raises(Unreadable):
        limits_of({}, None, ["confirm"])


def test_a_first_run_is_an_example_of_all() -> None:
    spec: dict[str, Any] = {"command": "train {lr} {depth}"}
    varied = fixed_and_varied(spec, ["params.lr=log(0.1,1)", "params.depth=int(2,8)", "params.opt=sgd,adam"])
    assert example_of(spec, varied)["params"] == {"lr": 0.1, "depth": 2, "opt": "sgd"}
    assert "params" not in spec


def test_a_job_of_several_nodes_has_one_name_for_one_key() -> None:
    names: list[str] = []

    class Fleet:
        """Takes groups."""

        def add_group(self, name: str, *_: Any, **__: Any) -> Any:
            names.append(name)
            return SimpleNamespace(id=name)

    fleet: Any = Fleet()
    for key in ("k", "k", "l", None, None):
        start_nodes(fleet, {"command": "x"}, 2, {}, key, as_json=False)
    assert names[0] == names[1]
    assert len(set(names)) == 4
    assert all(re.fullmatch(GROUP_ID, each) for each in names)
