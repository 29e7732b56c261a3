"""The OpenAPI document says what is in every answer, and the clients ask for nothing else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType
from typing import Any

import pytest

from control_plane.config import read_settings
from control_plane.reads.kinds.parts import names_of, parts_of_kinds
from control_plane.server.api.contract.struct_routes import reference
from control_plane.server.app import create_app
from control_plane.server.deps import wire
from control_plane.store import database
from events.runtime.clock import SystemIds
from events.testing import EPOCH, ManualClock
from podfleet.client import endpoints, options
from podfleet.client.call import Call, Redirect

JSON = "application/json"
# What is in the words of a kind, of a pipeline or of a person: of it is known that it is a JSON object.
FREE = {
    *("Attempt.validation", "PodAttempt.validation", "RunRow.validation", "Run.validation"),
    *(
        "Run.spec",
        "Run.requires",
        "Run.validations",
        *(f"Run.{each}" for each in names_of(parts_of_kinds())),
        "Nodes.items",
        "JournalEntry.set",
        "Checkpoints.told",
    ),
    *(
        "CheckedRun.spec",
        "CheckedRun.requires",
        "ClaimedRun.spec",
        "ScheduledRun.spec",
        "ScheduledRun.requires",
    ),
    *("GroupRow.run", "GroupRow.plan", "Group.run", "Group.plan", "GroupMember.values"),
    *(f"{each}.ideaJson" for each in ("Hypothesis", "HypothesisRow", "ProposedHypothesis")),
    *(f"{each}.ideas" for each in ("Hypothesis", "ProposedHypothesis")),
    *(f"{each}.unfinishedIdeas" for each in ("Hypothesis", "ProposedHypothesis")),
    *(
        f"{answer}.{each}"
        for answer in ("Task", "TaskRow")
        for each in ("benchmark", "model", "optimization", "parameters", "placement")
    ),
    *("TriedConfiguration.parameters", "TriedConfiguration.summary", "StudyTrial.values"),
    *("Race.spec", "RacedLane.parameters", "LaneChecks.parameters"),
    *("LoggedEvent.data", "Reason.evidence", "KindAnswer.specSchema", "KindAnswer.example"),
}
ENVIRONMENT = {
    "MONGODB_URL": "mongodb://127.0.0.1:9/x", "MINIO_ENDPOINT": "127.0.0.1:9", "MINIO_ACCESS_KEY": "x",
    "MINIO_SECRET_KEY": "x",
}  # fmt: skip


@cache
def document() -> dict[str, Any]:
    """Return the document of a control plane that nothing is connected to."""

    async def read() -> dict[str, Any]:
        client = database.connect(ENVIRONMENT["MONGODB_URL"])
        settings = read_settings(ENVIRONMENT, host="127.0.0.1", port=8700, keyless=True)
        db = database.database(client, ENVIRONMENT["MONGODB_URL"])
        app = create_app(wire(settings, db, ManualClock(), SystemIds()))
        route: Any = next(each for each in app.routes if getattr(each, "path", None) == "/openapi.json")
        found: dict[str, Any] = await route.endpoint(None)
        await client.close()
        return found

    return asyncio.run(read())


def successes() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each answer in JSON to what went well, with the name of its route."""
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            for status, answer in operation["responses"].items():
                if status.startswith("2") and JSON in answer.get("content", {}):
                    yield f"{method.upper()} {path} {status}", answer["content"][JSON]["schema"]


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def objects(schema: Mapping[str, Any], place: str, seen: set[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every object in a schema with its place: the name of a struct, or of a field of one."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            seen.add(name)
            yield from objects(resolved(schema), name, seen)
        return
    for each in schema.get("anyOf", ()):
        yield from objects(each, place, seen)
    if "items" in schema:
        yield from objects(schema["items"], place, seen)
    if schema.get("type") == "object":
        yield place, schema
        for name, each in schema.get("properties", {}).items():
            yield from objects(each, f"{place}.{name}", seen)


def test_every_success_says_what_is_in_its_answer() -> None:
    told = list(successes())
    assert len(told) > 50
    for route, schema in told:
        for each in schema.get("anyOf", [schema]):
            found = resolved(each)
            assert found["type"] == "object", route
            assert found["properties"], route
            assert found["description"], route


def test_only_what_is_in_the_words_of_somebody_else_is_left_open() -> None:
    seen: set[str] = set()
    found = [each for route, schema in successes() for each in objects(schema, route, seen)]
    is_open = {
        place for place, each in found if not each.get("properties") and not each.get("additionalProperties")
    }
    assert is_open == FREE


def made() -> dict[str, Call[Any]]:
    """Return each call that a client knows, with something in every place."""
    found = {}
    for name, function in inspect.getmembers(endpoints, inspect.isfunction):
        if name.startswith("_") or function.__module__ != endpoints.__name__:
            continue
        words = {
            each: BODIES.get(each) or _something(str(parameter.annotation))
            for each, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                taken = getattr(options, str(parameter.annotation).removeprefix("Unpack[").removesuffix("]"))
                words |= {each: OPTIONS[each] for each in taken.__annotations__}
        found[name] = function(**words)
    return found


OPTIONS = {
    "priority": 5, "labels": {"a": "b"}, "requires": {"region": "eu"}, "max_attempts": 5, "queue_limit_s": 5,
    "not_before": EPOCH, "secrets": ["KEY"], "project": "vision",
}  # fmt: skip
BODIES = {
    "task": {"name": "a", "model": {"id": "m"}, "parameters": {"n_parallel": [1, 2]}},
    "chunks": [("0" * 64, 5)],
    "manifest": ("0" * 64, 5),
}
SOMETHING = {
    "int": 5, "float": 5.0, "bool": True, "Json": {"a": 1}, "Plan": {"kind": "matrix"}, "datetime": EPOCH,
    "Mapping[str, str]": {"a": "b"}, "Sequence[str]": ["read"],
}  # fmt: skip


def _something(annotation: str) -> Any:
    return SOMETHING.get(annotation.removesuffix(" | None"), "x")


CALLS = made()


@pytest.mark.parametrize("name", CALLS)
def test_what_a_client_asks_is_what_the_document_says(name: str) -> None:
    call = CALLS[name]
    operation = document()["paths"][call.path][call.method.lower()]
    parameters = {(each["in"], each["name"]) for each in operation["parameters"]}
    asked = {*(("path", each) for each in call.place), *(("query", each) for each in call.query)}
    assert asked <= parameters
    assert {each.lower() for each in call.headers} <= {
        each.lower() for where, each in parameters if where == "header"
    }
    assert {each for where, each in parameters if where == "path"} == call.place.keys()
    if call.body is not None:
        body = operation["requestBody"]["content"][JSON]["schema"]
        _require_known(call.body, next(iter(body.get("anyOf", [body]))))
    if call.answer in (Redirect, NoneType):
        return
    answers = {str(each) for route, schema in successes() if route.startswith(f"{call.method} {call.path} ")
               for each in schema.get("anyOf", [schema])}  # fmt: skip
    if name in ("export_audit_log", "export_results"):  # an entry a line, which OpenAPI cannot say
        assert not answers
    else:
        assert str(reference(call.answer)) in answers


def _require_known(body: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    known = resolved(schema)
    assert body.keys() <= known["properties"].keys()
    assert set(known.get("required", ())) <= body.keys()
    for name, value in body.items():
        if isinstance(value, Mapping) and "$ref" in known["properties"][name]:
            _require_known(value, known["properties"][name])


def test_a_status_declared_without_words_is_a_refusal_and_any_other_an_answer() -> None:
    found = document()["paths"]["/api/runs/compare"]["get"]["responses"]["404"]
    assert list(found["content"]) == ["application/problem+json"]
    ready = document()["paths"]["/readyz"]["get"]["responses"]["503"]
    assert list(ready["content"]) == [JSON]
