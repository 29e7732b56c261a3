"""Races beside their start: which pods are chosen, what is checked, and when a difference decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from control_plane.model.explanation import Hold, LivePod
from control_plane.model.groups.goals import Goal
from control_plane.model.groups.races.choosing import Wish, chosen
from control_plane.model.groups.races.figures import (
    Contender,
    figure_of,
    laps_of,
    measure_of,
    stored_measure,
    verdict,
)
from control_plane.model.groups.races.fit import fit_of
from control_plane.model.groups.races.machine import Machine, machine_of
from control_plane.model.groups.races.preflight import Wanted, checks_of, grade_of
from control_plane.model.groups.races.race import Lane
from control_plane.runs.groups.races.reads import _row
from control_plane.runs.groups.races.service import needs
from control_plane.server.web.drawing.race import Spread, sparkline, spread_chart, track
from control_plane.server.web.forms.fields import Unfit
from control_plane.server.web.pages.groups.races.form import parameters_in, words_of
from events.kinds.declaring.spec import FIELD_NAME
from events.kinds.results import Column
from events.queue.abilities import Abilities
from events.queue.pod_checks import Broken
from events.queue.requirements import Requirements, class_key
from events.runtime.errors import Rejected

FAST = Goal("rate", is_lower_better=False)
GIB = 1024**3
HEADLINE = (Column("device", type="text"), Column("count"), Column("rate", unit="1/s", direction="higher"))


def machine(name: str, state: str = "idle", told: Mapping[str, Any] | None = None, **more: Any) -> Machine:
    labels = more.pop("labels", {})
    abilities = Abilities(frozenset(more.pop("kinds", {"probe"})), 0.0, None, labels, name)
    pod = LivePod(id=f"{name}/1", state=state, abilities=abilities, **more)
    return machine_of(pod, {"capabilities": told or {}, "labels": labels})


def names(*wishes: Wish, of: list[Machine]) -> list[str]:
    return [lane.pod for lane in chosen(wishes, of, "probe", Requirements())]


def test_labels_take_idle_pods_and_leave_out_those_that_could_not_take_the_kind() -> None:
    fleet = [
        machine("busy", "busy", labels={"gpu": "h100"}),
        machine("idle", labels={"gpu": "h100"}),
        machine("held", labels={"gpu": "h100"}, hold=Hold("cordoned", "why")),
        machine("other", labels={"gpu": "h100"}, kinds={"experiment"}),
        machine("ill", labels={"gpu": "h100"}, broken=(Broken("disk", "full", None),)),
        machine("old", labels={"gpu": "a10"}),
    ]
    assert names(Wish(labels={"gpu": "h100"}), of=fleet) == ["idle", "busy"]
    assert names(Wish(labels={"gpu": "h100"}, most=1), Wish(pod="old"), of=fleet) == ["idle", "old"]
    assert names(Wish(one_of="gpu"), of=fleet) == ["old", "idle"]
    # one that is named has its lane, whatever comes before it
    assert names(Wish(labels={"gpu": "h100"}), Wish(pod="idle"), of=fleet) == ["busy", "idle"]


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ([Wish(labels={"gpu": "none"})], "no live pod with"),
        ([Wish(one_of="rack")], "no live pod with the label 'rack'"),
        ([Wish(pod="a"), Wish(pod="a")], "a pod runs one"),
        ([Wish(pod="a")], "2 to 16 lanes, these are 1: a"),
        ([Wish(pod="a"), Wish(pod="b"), Wish(labels={"gpu": "x"})], "has a lane already"),
        ([Wish(pod=f"p{number}") for number in range(17)], "these are 17"),
    ],
)
def test_lanes_that_cannot_be_are_refused_in_words(wishes: list[Wish], words: str) -> None:
    fleet = [machine("a", labels={"gpu": "x"}), machine("b", labels={"gpu": "x"})]
    with pytest.raises(Rejected, match=words):
        names(*wishes, of=fleet)


@pytest.mark.parametrize(
    ("memory", "model", "grade"),
    [
        (100 * GIB, 44 * GIB, "GOOD"),  # 90 / 74.8 = 1.203
        (100 * GIB, 45 * GIB, "RISK"),
        (100 * GIB, 52 * GIB, "RISK"),
        (100 * GIB, 53 * GIB, "FAIL"),  # 90 / 90.1
        (None, GIB, "RISK"),
        (GIB, None, "RISK"),
        (GIB, 0, "RISK"),
    ],
)
def test_a_model_fits_by_its_peak_in_what_is_usable(
    memory: int | None, model: int | None, grade: str
) -> None:
    assert fit_of(memory, model).grade == grade


def test_the_checks_of_a_lane_tell_what_keeps_it_and_what_is_not_known() -> None:
    told = {
        "memoryMib": 8192,
        "models": [{"name": "m", "bytes": GIB, "engine": "ollama"}, {"name": 7}, "x"],
        "engines": ["ollama"],
    }
    wanted = Wanted(class_key("probe", Requirements(pod="a")), "probe", model="m", engine="ollama")
    fleet = [machine("a", told=told), machine("b", told={"memoryMib": 1024})]
    good = {each.name: each for each in checks_of("a", fleet, wanted)}
    assert {each.grade for each in good.values()} == {"GOOD"}
    assert good["memory"].fit is not None
    assert good["memory"].fit.ratio == pytest.approx(8 * 0.9 / 1.7)
    other = Wanted(class_key("probe", Requirements(pod="b")), "probe", model="m", engine="ollama")
    grades = {each.name: each.grade for each in checks_of("b", fleet, other)}
    # the bytes are those that another machine knows
    assert (grades["model"], grades["engine"], grades["memory"]) == ("RISK", "RISK", "FAIL")
    assert grade_of(checks_of("gone", fleet, wanted)) == "FAIL"
    held = [machine("a", "busy", told=told, is_draining=True, kinds={"experiment"})]
    assert {each.name for each in checks_of("a", held, wanted) if each.grade == "FAIL"} == {
        "kind",
        "cordoned",
    }
    fetched = Wanted(wanted.class_key, "probe", model="new", engine="ollama")
    words = [each.says for each in checks_of("a", fleet, fetched) if each.name == "model"]
    assert words == ["new will be fetched before the start"]


@pytest.mark.parametrize(
    ("wanted", "grades", "words"),
    [
        ({"model": "m", "engine": "ollama"}, "GOOD GOOD GOOD", "it has m:latest"),
        ({"model": "m", "engine": "xllamacpp"}, "FAIL RISK RISK", "does not have m"),
        ({"model": "w", "engine": "ollama"}, "GOOD RISK RISK", "will be fetched"),
        (
            {"model": "w", "engine": "ollama", "is_offline": True},
            "GOOD RISK RISK",
            "w is not among the models that it lists, and the run is offline",
        ),
        ({"model": "w", "engine": "vllm", "in_image": True}, "GOOD GOOD FAIL", "it has w"),
        ({"model": "m", "server": "here"}, "GOOD RISK GOOD", "not known whether the server here has m"),
        ({"model": "x", "server": "comfyui"}, "FAIL RISK RISK", "not known"),
    ],
)
def test_models_are_those_of_the_engine_or_the_server_that_a_lane_asks(
    wanted: dict[str, Any], grades: str, words: str
) -> None:
    models = [{"name": "m:latest", "bytes": GIB, "engine": "ollama"}, {"name": "w", "bytes": 8 * GIB}]
    told = {"memoryMib": 8192, "models": models, "engines": ["ollama", "docker"]}
    fleet = [machine("a", told=told, labels={"endpoint-here": "yes"})]
    lane = Wanted(class_key("probe", Requirements(pod="a")), "probe", **wanted)
    found = {each.name: each for each in checks_of("a", fleet, lane)}
    assert [found[name].grade for name in ("engine", "model", "memory")] == grades.split()
    assert words in found["model"].says


@pytest.mark.parametrize(
    ("spec", "engine", "in_image", "server"),
    [
        ({}, "xllamacpp", False, ""),
        ({"endpoint": "here"}, "", False, "here"),
        ({"engine": "vllm", "image": "vllm/vllm-openai:v1"}, "vllm", True, ""),
    ],
)
def test_a_lane_needs_what_its_run_will_ask_for(
    spec: dict[str, Any], engine: str, in_image: bool, server: str
) -> None:
    found = needs({"kind": "prompt", "spec": {"model": "m", "prompt": "p"}}, Lane("a", spec))
    assert (found.model, found.engine, found.in_image, found.server) == ("m", engine, in_image, server)
    offline = {"kind": "prompt", "spec": {"model": "m", "prompt": "p", "offline": True}}
    assert (found.is_offline, needs(offline, Lane("a", spec)).is_offline) == (False, True)
    image = {"kind": "image", "spec": {"prompt": "p", "backend": "comfyui", "model": "m"}}
    assert needs(image, Lane("a", {})).server == "comfyui"


def test_a_race_is_decided_where_the_interval_is_beyond_zero_and_by_whoever_may_win() -> None:
    one, two = Contender("a", [10.0, 10.1, 9.9], True), Contender("b", [8.0, 8.1, 7.9], True)
    late = Contender("late", [99.0, 99.0], False)
    found = verdict([two, late, one], FAST, "1/s", is_over=True)
    assert (found.winner, found.second, found.is_decided) == ("a", "b", True)
    assert found.difference is not None
    assert found.difference.value == pytest.approx(2.0)
    assert found.percent == pytest.approx(25.0)
    slow = verdict([two, one], Goal("rate", is_lower_better=True), "s", is_over=True)
    assert (slow.winner, slow.difference and slow.difference.value) == ("b", pytest.approx(2.0))
    near = verdict([one, Contender("c", [10.0, 9.0, 11.0], True)], FAST, "", is_over=True)
    assert not near.is_decided
    assert "which contains zero; run more repeats" in near.says
    single = verdict([Contender("a", [2.0], True), Contender("b", [1.0], True)], FAST, "", is_over=True)
    assert (single.is_decided, "`repeats`" in single.says) == (False, True)
    equal = verdict([one, Contender("c", one.numbers, True)], FAST, "", is_over=True)
    assert equal.says.startswith(f"Not decided: {one.pod} and c are equal in rate, 95 % interval")
    assert "goes on" in verdict([one, two], FAST, "", is_over=False).says
    assert "Nobody won" in verdict([late], FAST, "", is_over=True).says
    assert verdict([one, late], FAST, "", is_over=True).winner == "a"


def test_the_measure_is_the_first_with_a_direction_that_was_measured() -> None:
    others = (*HEADLINE, Column("seconds", direction="lower"))
    assert str(measure_of(None, others)) == "max:rate"
    assert str(measure_of(None, others, {"seconds"})) == "min:seconds"
    assert str(measure_of(None, ())) == "min:finish_s"
    assert str(measure_of("min:count", others)) == "min:count"
    for wanted, words in (("count", "no direction"), ("device", "none of"), ("min:what", "none of")):
        with pytest.raises(Rejected, match=words):
            measure_of(wanted, others)
    for stored in ("count", 7, "min:", "max:a b", {}):
        with pytest.raises(Rejected, match="is not min:NAME"):
            stored_measure(stored, others)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.from_regex(FIELD_NAME, fullmatch=True), values, max_size=4))
@example({"parameters": {"a": 1, "b": 2}, "prompt": "a, b", "number": "4", "not": "NaN", "empty": ""})
def test_the_fields_of_a_lane_are_read_as_they_are_written(parameters: dict[str, Any]) -> None:
    read = parameters_in("a", words_of(parameters))
    assert json.dumps(read) == json.dumps(parameters)  # 1 is not 1.0, nor true


def test_the_fields_of_a_lane_that_cannot_be_read_are_told() -> None:
    assert parameters_in("a", "x = 1\r\n\r\ny=a, b=c ") == {"x": 1, "y": "a, b=c"}
    assert parameters_in("a", "x=" + "[" * 100_000)["x"].startswith("[[")
    for text, words in (
        ("x", "a: 'x' is not name=value"),
        ("=1", "is not"),
        ("x=1\nx=2", "'x' is given twice"),
    ):
        with pytest.raises(Unfit, match=words):
            parameters_in("a", text)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_figures_hold_their_numbers_whatever_their_size(numbers: list[float]) -> None:
    found = figure_of(numbers)
    assert min(numbers) <= found.mean <= max(numbers)
    assert (found.sd is None) == (len(numbers) == 1)


def test_rows_that_are_no_laps_are_left_out_and_laps_are_in_their_order() -> None:
    rows: list[dict[str, Any]] = [
        {"key": "10", "values": {"lap": 10, "rate": 3}}, {"key": "2", "values": {"rate": True, "x": "text"}},
        {"key": "0", "values": {"rate": 1}}, {"key": "last", "values": {"rate": 1}}, {"key": 3, "values": {}},
        {"key": "1", "values": [1]}, {"key": "9999999", "values": {"rate": 1}}, {},
    ]  # fmt: skip
    assert laps_of(rows) == [(1, {}), (2, {}), (10, {"rate": 3})]


def test_pictures_escape_names_and_take_any_number() -> None:
    lanes = [Spread("<b>" * 99, 1e300, -1e300, 1e308, [1.0] * 500), Spread("b", 1.0, None, None, [])]
    drawn = spread_chart("<i>", lanes)
    assert drawn is not None
    assert "<b>" not in drawn
    assert "<i>" not in drawn
    assert spread_chart("x", []) is None
    assert 'd="M120 1"' in sparkline([None, float("nan"), 7.0], "util")
    assert 'width="4"' in track(5.0, 1.0, 0.0, "x", is_running=False)


def test_of_equal_lanes_a_list_names_the_first_whatever_the_order_of_the_store() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    said = {"startedAt": now, "lateS": 0.0}
    runs = [
        (
            {"_id": pod, "slot": slot, "status": "COMPLETED", "attempt": 1, "createdAt": now,
             "classKey": f"~{pod}/probe/cpu/any", "summary": {"value": 5.0}},
            said,
        )
        for slot, pod in ((1, "b"), (0, "a"))
    ]  # fmt: skip
    plan = {"kind": "race", "lanes": [{"pod": "a"}, {"pod": "b"}], "ready_s": 9.0, "limit_s": 9.0}
    group = {
        "_id": "g", "run": {"kind": "probe"}, "plan": plan, "status": "COMPLETED", "round": 1,
        "createdBy": "ada", "createdAt": now,
    }  # fmt: skip
    leader = _row(group, runs).leader
    assert leader is not None
    assert (leader.pod, leader.value) == ("a", 5.0)
