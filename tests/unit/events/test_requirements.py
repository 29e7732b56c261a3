"""What a run may ask of a pod, the class that follows, and what is said of what cannot be meant."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds import read_spec
from events.queue.labels import ASKED, NAME
from events.queue.requirements import (
    LABELS_MAX,
    POD_NAME,
    class_key,
    classes_of,
    gpu_tier,
    read_class,
    read_requirements,
)
from events.runtime.errors import Rejected


def test_an_unknown_field_is_refused_with_the_fields_that_there_are() -> None:
    with pytest.raises(Rejected, match=r"unknown field `second`; known: .*\bseconds\b"):
        read_spec("probe", {"second": 1})
    with pytest.raises(
        Rejected, match=r"unknown field `cards`; known: gpu_gib, gpus, gpu, region, labels, pod$"
    ):
        read_requirements({"cards": 1})
    with pytest.raises(Rejected, match=r"at `\$\.nodes`$"):
        read_spec("experiment", {"idea": "x", "nodes": {"Stage_9": 1}})


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({}, "probe/cpu/any"),
        ({"gpu_gib": 20, "region": "eu"}, "probe/24/eu"),
        ({"labels": {}}, "probe/cpu/any"),
        ({"labels": {"gpu": "h100"}}, "probe/cpu/any/gpu=h100"),
        ({"labels": {"rack": "a4", "gpus": ">=4", "gpu": "h100"}}, "probe/cpu/any/gpu=h100,gpus=>=4,rack=a4"),
        ({"gpus": 4, "gpu": "h100"}, "probe/cpu/any/gpu=h100,gpus=>=4"),
        ({"gpus": 4, "labels": {"gpus": ">=4"}, "gpu": None}, "probe/cpu/any/gpus=>=4"),
        ({"gpu_gib": 141, "gpus": 0}, "probe/80/any/gpu_gib=>=141"),
        ({"gpu_gib": 80.5}, "probe/80/any/gpu_gib=>=81"),
        ({"pod": "pod-7"}, "~pod-7/probe/cpu/any"),
        ({"pod": "~", "labels": {"gpu": "t4"}, "region": "eu"}, "~~/probe/cpu/eu/gpu=t4"),
        ({"pod": "pöd,a=b@c"}, "~pöd,a=b@c/probe/cpu/any"),
    ],
)
def test_a_class_says_all_that_is_asked_and_is_read_again(asked: dict[str, Any], key: str) -> None:
    wanted = read_requirements(asked)
    assert class_key("probe", wanted) == key
    found = read_class(key)
    assert found.base == f"probe/{gpu_tier(wanted.gpu_gib)}/{wanted.region}"
    assert (found.kind, dict(found.labels), found.pod) == ("probe", dict(wanted.labels), wanted.pod)
    assert list(found.labels) == sorted(wanted.labels.items())


@given(
    st.dictionaries(st.from_regex(NAME, fullmatch=True), st.from_regex(ASKED, fullmatch=True), max_size=3),
    st.none() | st.from_regex(POD_NAME, fullmatch=True),
)
def test_two_requirements_have_one_class_only_where_they_are_the_same(
    labels: dict[str, str], pod: str | None
) -> None:
    wanted = read_requirements({"labels": labels, "pod": pod})
    found = read_class(class_key("probe", wanted))
    assert (dict(found.labels), found.pod, found.base) == (labels, pod, "probe/cpu/any")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"labels": {"gpus": 4}}, "labels: gpus is 4, which is no text; write it in quotes"),
        ({"labels": ["gpu"]}, "Expected `object`, got `array`"),
        ({"labels": {"GPU": "h100"}}, "labels: 'GPU' is no name of a label; it has a lower-case letter"),
        ({"labels": {"gpu": ""}}, "labels: gpu is ''; a value has 1 to 64 of"),
        ({"labels": {"gpu": "a/b"}}, "labels: gpu is 'a/b'; a value has"),
        ({"labels": {"gpu": "a,b=c"}}, "labels: gpu is 'a,b=c'; a value has"),
        ({"labels": {"gpus": ">=x"}}, ", or >= and a number, such as >=4"),
        ({"labels": {"gpus": ">4"}}, "labels: gpus is '>4'; a value has"),
        ({"labels": {"gpu": "h100\n"}}, "a value has"),
        ({"labels": {"gpu\n": "h100"}}, "is no name of a label"),
        ({"gpus": 4, "labels": {"gpus": ">=8"}}, "gpus is asked for twice: gpus>=8 is a label, too"),
        ({"gpu": "t4", "labels": {"gpu": "h100"}}, "gpu is asked for twice: gpu=h100 is a label, too"),
        ({"gpus": 65}, "Expected `int` <= 64"),
        ({"gpus": True}, "Expected `int`"),
        ({"gpu": "a,b=c"}, "matching regex"),
        ({"gpu_gib": 1e9}, "Expected `float` <= 4096.0"),
        ({"region": "eu\n"}, "matching regex"),
        ({"labels": {f"l{number}": "x" for number in range(LABELS_MAX + 1)}}, "length <= 16"),
        ({"labels": {f"l{number}": "x" * 64 for number in range(7)}}, "too long together"),
        ({"pod": ""}, "matching regex"),
        ({"pod": "pod-7/3f2a"}, "matching regex"),
        ({"pod": "a b"}, "matching regex"),
        ({"pod": "a\n"}, "matching regex"),
        ({"pod": "a" * 201}, "matching regex"),
        ({"pod": "pod-7\u200b"}, "matching regex"),
        ({"pod": "\u202e7-dop"}, "matching regex"),
        ({"pod": 7}, "Expected `str | null`, got `int`"),
    ],
)
def test_requirements_that_cannot_be_meant_are_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(Rejected, match=re.escape(says)):
        read_requirements(asked)


@pytest.mark.parametrize(
    ("key", "is_there"),
    [
        ("probe/cpu/eu", True), ("probe/cpu/eu/gpu=t4", True), ("~pod-7/probe/cpu/eu", True),
        ("~eu/probe/cpu/eu/gpu=t4", True), ("probe/cpu/eu-de", False), ("probe/cpu/any/rack=eu", False),
        ("~a/probe/eu/any", False), ("~eu/probe/cpu/any", False),
    ],
)  # fmt: skip
def test_the_classes_of_a_region_are_found_by_a_pattern(key: str, is_there: bool) -> None:
    assert bool(re.search(classes_of("eu"), key)) is is_there
    assert not re.search(classes_of("e."), key)
    assert bool(re.search(classes_of("eu", "default"), key)) is is_there
    assert not re.search(classes_of("eu", "vision"), key)


def test_the_classes_of_a_project_are_found_by_a_pattern() -> None:
    key = class_key("probe", read_requirements({"region": "eu", "labels": {"rack": "r1"}}), "vision")
    assert re.search(classes_of(project="vision"), key)
    assert re.search(classes_of("eu", "vision"), key)
    for region, project in ((None, "visio"), (None, "default"), ("any", "vision"), ("e.", None)):
        assert not re.search(classes_of(region, project), key)


@pytest.mark.parametrize(
    ("requires", "gpus"),
    [
        ({}, 0),
        ({"gpu_gib": 8}, 1),
        ({"gpus": 4}, 4),
        ({"gpu": "h100"}, 1),
        ({"labels": {"gpu_gib": ">=24"}}, 1),
        ({"labels": {"gpus": "8"}}, 8),
        ({"labels": {"gpus": ">=8.0"}}, 8),
        ({"labels": {"gpus": ">=7.9"}}, 8),
        ({"labels": {"gpus": "many"}, "gpu": "h100"}, 1),
        ({"gpu_gib": 200, "gpus": 2}, 2),
    ],
)
def test_gpus_count_however_they_are_asked_for(requires: dict[str, Any], gpus: int) -> None:
    assert read_class(class_key("job", read_requirements(requires), "vision")).gpus == gpus
