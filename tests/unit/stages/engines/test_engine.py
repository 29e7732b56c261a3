"""Rows of engines: their parameters, their command lines, and listings that lie."""

from __future__ import annotations

import pytest

from events.models.engine import Value, listed_names
from events.models.engines import ENGINES, XLLAMACPP
from events.runtime.errors import PipelineError


def test_what_is_left_out_has_its_default_and_threads_leave_a_core() -> None:
    settled = XLLAMACPP.settled({"n_parallel": 8}, cores=16)
    assert (settled["n_parallel"], settled["n_ctx"], settled["n_threads"]) == (8, 8_192, 15)
    assert XLLAMACPP.settled({}, cores=1)["n_threads"] == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_threads", 4),
        ("n_threads", 0),
        ("n_parallel", 257),
        ("n_parallel", True),
        ("n_parallel", "4"),
        ("n_parallel", 2.5),
        ("cache_type_k", "q3_k"),
        ("cache_type_k", 3),
        ("cont_batching", "yes"),
        ("cont_batching", 1),
        ("--model", "/etc/passwd"),
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name(name: str, value: Value) -> None:
    with pytest.raises(PipelineError) as caught:
        XLLAMACPP.settled({name: value, "n_ctx": -1}, cores=4)
    assert caught.value.code == "CONFIG"
    assert name in caught.value.message
    assert "n_ctx" in caught.value.message, "every wrong one is named"


def test_every_default_of_every_row_is_within_its_range() -> None:
    for engine in ENGINES.values():
        assert engine.settled(engine.settled({}, cores=2), cores=2)
        for each in engine.parameters:
            if each.choices:
                assert each.default in each.choices
            elif not isinstance(each.default, bool) and not each.leaves_a_core:
                assert each.low <= int(each.default) <= each.high


def test_the_command_line_has_each_parameter_once() -> None:
    fields = {"python": "py", "model": "/a b.gguf", "port": 7, "alias": "one", "name": "two"}
    words = XLLAMACPP.words(fields, XLLAMACPP.settled({"kv_unified": True}, cores=2))
    assert words[:4] == ["py", "-P", "-m", "stages.engines.xllamacpp_server"]
    assert {"--model=/a b.gguf", "--port=7", "--alias=one", "--name=two", "--kv_unified=true"} <= set(words)
    assert len(words) == len(XLLAMACPP.command) + len(XLLAMACPP.parameters)


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"data": [{"id": "a", "aliases": ["a", "b"]}, {"id": "c"}]}, ["a", "a", "b", "c"]),
        ({"data": {"id": "a"}}, []),
        ({"data": [{"id": 7, "aliases": "ab"}, "a", None]}, []),
        (["a"], []),
        (None, []),
    ],
)
def test_a_listing_may_hold_anything(answer: object, names: list[str]) -> None:
    assert listed_names(answer) == names
