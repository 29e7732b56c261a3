"""What the API's bodies refuse before anything is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import TypeAdapter, ValidationError

from control_plane.kinds.ideation.api import NewHypothesisBody
from control_plane.server.api.bulk import BulkBody
from control_plane.server.api.contract import problems
from control_plane.server.api.contract.bodies import NewRun, PodId
from control_plane.server.api.contract.group_bodies import LaneBody


def read(**fields: Any) -> NewRun:
    return NewRun.model_validate(json.loads(json.dumps({"kind": "probe", **fields})))


@pytest.mark.parametrize("name", ["team", "a.b/c-d_e", "0", "x" * 63])
def test_a_label_may_be_called_like_those_of_other_systems(name: str) -> None:
    assert read(labels={name: "$status"}).labels == {name: "$status"}


@pytest.mark.parametrize("name", ["", "$gt", ".a", "a b", "a=b", "a\x00", "x" * 64, "é", "a\n"])
def test_a_label_name_that_could_be_an_operator_or_a_pair_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        read(labels={name: "x"})


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00", "2200-01-01T00:00:00Z"]
)
def test_a_start_beyond_every_calendar_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="year"):
        read(not_before=text)


@pytest.mark.parametrize(
    "spec", [{"n": float("nan")}, {"n": [float("inf")]}, {"n": 2**63}, {"a\x00": 1}, {"a": "\ud800"}]
)
def test_what_the_store_cannot_hold_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(spec=spec)


@pytest.mark.parametrize(
    "unseen", ["\u200b", "\u202e", "\u2066", "\u00a0", "\u3164", "\ufeff", "\x9b", "\u00ad", "\ufe0f"]
)
def test_no_pod_looks_like_another_one_by_letters_that_nobody_sees(unseen: str) -> None:
    names = TypeAdapter(PodId)
    assert names.validate_python("pod-7/3f2a") == "pod-7/3f2a"
    assert names.validate_python("Größe-東京") == "Größe-東京"
    with pytest.raises(ValidationError):
        names.validate_python(f"pod-7{unseen}/3f2a")


def test_times_are_kept_in_utc() -> None:
    moment = read(not_before="2030-01-01T02:00:00+02:00").not_before
    assert moment is not None
    assert moment.isoformat() == "2030-01-01T00:00:00+00:00"


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert read(priority=3.0).priority == 3
    for value in (3.5, True, "3", 1e300):
        with pytest.raises(ValidationError):
            read(priority=value)


@pytest.mark.parametrize("idea", [{"n": 2**63}, "a\x00"])
def test_what_is_wrong_with_an_idea_is_said_once_and_by_its_name(idea: object) -> None:
    with pytest.raises(ValidationError) as caught:
        NewHypothesisBody.model_validate({"title": "t", "idea": idea})
    assert [each["loc"] for each in caught.value.errors()] == [("idea",)]


MANY = {f"!{number}": number for number in range(20_000)}


@pytest.mark.parametrize(
    ("body", "fields"),
    [(NewRun, MANY), (NewRun, {"kind": "probe", "labels": MANY}), (BulkBody, {"filters": MANY})],
)
def test_an_object_of_many_keys_is_one_problem(body: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="the object has 20,000 keys; at most 100 are read") as refused:
        body.model_validate(fields)
    assert refused.value.error_count() <= 2


def test_an_answer_names_some_problems_and_counts_the_others() -> None:
    app = FastAPI()
    pages: Any = None
    problems.install(app, pages)

    @app.post("/")
    async def bulk(_: BulkBody) -> None: ...

    @app.post("/lane")
    async def lane(_: LaneBody) -> None: ...

    with TestClient(app) as client:
        answer = client.post("/", json={"action": "cancel", "ids": [""] * 1_000})
        told = answer.json()
        assert answer.status_code == 422
        assert [each["field"] for each in told["fields"]] == [f"ids.{number}" for number in range(20)]
        assert told["detail"].endswith("; and 980 more problems")
        long = client.post("/", json={"action": "cancel", "ids": ["x"], "y" * 100_000: 1})
        assert long.json()["fields"][0]["field"] == "y" * 300 + "…"
        assert len(long.content) < 2_000
        worker = client.post("/lane", json={"pod": "local-1/zSOx4G"}).json()
        assert worker["detail"] == "pod: It has a character that is not taken here, or too many"
