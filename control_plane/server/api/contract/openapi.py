"""Makes the OpenAPI document from the declarations of routes, and the refusals that follow from them, pure.

All refusals have the same form, so those of a route follow from its properties. A request has a key, so the
key may be wrong. A path names an object, so the object may be missing. A route declares only its other
answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from control_plane.access.auth import SAFE_METHODS
from control_plane.reads.paging import LIMIT_MAX
from control_plane.server.api.contract.struct_routes import API, REFERENCE
from events.answers.kind_parts import with_parts

Json = dict[str, Any]

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
OPEN: Final = "health"  # the tag of the routes that ask for no key
INGEST: Final = "ingest"

REASONS: Final[Mapping[int, str]] = {
    400: "It cannot be read: no JSON, no cursor of this list, or not what its encoding says",
    401: "No key, or none that opens anything",
    403: "A key that may not do this, or a request from another site's page",
    404: "There is no such thing",
    408: "The body did not arrive in time",
    409: "Not now: `detail` says how things stand",
    410: "It was deleted: `tombstone` says what stays of it",
    412: "`If-Match` names a state that is not the present one",
    413: "Over a limit, which is named",
    415: "A media type or an encoding that is not read here",
    422: "Read, and refused: `detail` says why",
    429: "Too often: send it again, later",
    503: "Not taken: send it again, later",
}
HEADERS: Final[Mapping[int, tuple[str, str]]] = {
    201: ("Location", "string"),
    302: ("Location", "string"),
    401: ("WWW-Authenticate", "string"),
    429: ("Retry-After", "integer"),
    503: ("Retry-After", "integer"),
}
PROBLEM: Final[Json] = {
    "type": "object",
    "description": "What went wrong, and what to do (RFC 9457).",
    "required": ["type", "status", "code", "detail"],
    "properties": {
        "type": {"const": "about:blank"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "minLength": 1, "description": "For programs; it stays what it is."},
        "detail": {"type": "string", "description": "For people."},
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "limit": {"type": "string"},
        "maximum": {"type": "integer"},
        "retry_after_s": {"type": "number", "minimum": 0},
        "tombstone": {"type": "object", "description": "What stays of what was deleted."},
    },
}
COUNT: Final[Json] = {"type": "integer", "minimum": 0}
VERDICTS: Final[Json] = {
    "type": "object",
    "description": "What came of each event of a request.",
    "required": ["accepted", "duplicates", "rejected", "ackedThrough", "fenced"],
    "properties": {
        "accepted": COUNT,
        "duplicates": COUNT,
        "unknown": COUNT,
        "rejected": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["line", "code", "message"],
                "properties": {
                    "line": {"type": "integer", "minimum": 1},
                    "id": {"type": ["string", "null"]},
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                },
            },
        },
        "ackedThrough": {"type": "object", "additionalProperties": COUNT},
        "fenced": {"type": "array", "items": {"type": "string"}},
    },
}
PRINTABLE: Final = "^[^\\u0000-\\u001f\\u007f-\\u009f\\ufdd0-\\ufdef\\ufffe\\uffff]*$"
TRACE: Final = "^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$"
EVENT: Final[Json] = {
    "type": "object",
    "description": "A CloudEvent 1.0; `docs/events.md` lists the types and their data. Null means unset.",
    "required": ["specversion", "id", "source", "type", "subject"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1, "maxLength": 2048, "pattern": PRINTABLE},
        "source": {"type": "string", "minLength": 1, "format": "uri-reference"},
        "type": {"type": "string", "pattern": r"^ai\.[a-z_.]+$"},
        "subject": {"type": "string", "pattern": "^run/[A-Za-z0-9._-]{1,64}$"},
        "time": {"type": ["string", "null"], "format": "date-time"},
        "sequence": {"type": ["string", "null"], "pattern": "^0*[1-9][0-9]{0,14}$", "maxLength": 32},
        "attempt": {"type": ["integer", "null"], "minimum": 1, "maximum": 2**31 - 1},
        "traceparent": {"type": ["string", "null"], "pattern": TRACE},
        "data": {"type": ["object", "null"]},
        "data_base64": {"type": ["string", "null"], "contentEncoding": "base64"},
    },
    "propertyNames": {"pattern": "^([a-z0-9]+|data_base64)$"},
    "additionalProperties": {
        "anyOf": [
            {"type": "string", "pattern": PRINTABLE},
            {"type": ["boolean", "null"]},
            {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
        ]
    },
}
OF_DELETED: Final = frozenset({"run_id", "hypothesis_id", "artifact_id"})  # what has tombstones
BODIES: Final[Mapping[str, Mapping[str, Json]]] = {
    "/api/ingest/event": {
        "application/cloudevents+json": {"$ref": "#/components/schemas/Event"},
        "application/json": {"$ref": "#/components/schemas/Event"},
    },
    "/api/ingest/events": {
        "application/cloudevents-batch+json": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/Event"},
        },
        "application/x-ndjson": {"type": "string", "description": "One event in JSON a line."},
    },
}


def described(document: Json, answers: Iterable[Any], parts: Sequence[str] = ()) -> Json:
    """Return the complete document, from FastAPI's description of the routes and their structs.

    `parts` are the names of the lists of a run that depend on its kind.
    """
    paths = {
        path: {method: _operation(path, method, each) for method, each in operations.items()}
        for path, operations in document["paths"].items()
    }
    components = document.get("components", {})
    schemas = components.get("schemas", {})
    own = {
        name: each for name, each in schemas.items() if name not in ("HTTPValidationError", "ValidationError")
    }
    _, structs = msgspec.json.schema_components(answers, ref_template=REFERENCE)
    assert not own.keys() & structs.keys(), "a body and an answer have one name"
    if "Run" in structs:
        structs["Run"] = with_parts(structs["Run"], parts)
    return {
        **document,
        "paths": paths,
        "components": {
            **components,
            "schemas": {**own, **structs, "Problem": PROBLEM, "Event": EVENT, "Verdicts": VERDICTS},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(path: str, method: str, operation: Json) -> Json:
    """Return a route with all its possible answers."""
    described = {**operation, "parameters": [_parameter(each) for each in operation.get("parameters", ())]}
    if path in BODIES:
        content = {media: {"schema": schema} for media, schema in BODIES[path].items()}
        described["requestBody"] = {"required": True, "content": content}
    answers = {status: _answer(int(status), each) for status, each in operation["responses"].items()}
    answers.pop("422", None)  # FastAPI's own words, which are not ours
    if INGEST in operation.get("tags", ()):
        answers |= {status: _verdicts(words) for status, words in _VERDICTS_OF.items()}
    own = [int(status) for status, each in answers.items() if int(status) >= 400 and "content" not in each]
    for status in (*own, *_refusals(path, method, described)):
        answers[str(status)] = _refusal(status, answers.get(str(status)))
    if OPEN not in operation.get("tags", ()):
        described["security"] = [{"key": []}]
    return {**described, "responses": dict(sorted(answers.items()))}


def _refusals(path: str, method: str, operation: Json) -> Iterator[int]:
    parameters = operation["parameters"]
    has_body = "requestBody" in operation
    if OPEN not in operation.get("tags", ()):
        yield from (401, 403, 429, 503)
    if any(each["in"] == "path" for each in parameters):
        yield 404
    if any(each["in"] == "path" and each["name"] in OF_DELETED for each in parameters):
        yield 410
    if has_body or any(each["name"] in ("after", "limit") for each in parameters):
        yield 400
    if has_body:
        yield from (408, 413)
    if has_body or parameters or path.startswith(API):  # there an unknown query parameter is refused
        yield 422
    if method.upper() not in SAFE_METHODS:
        yield 409
    if INGEST in operation.get("tags", ()):
        yield 415


def _refusal(status: int, own: Json | None) -> Json:
    """Return a refusal, combined with the route's own answer of this status."""
    problem = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    content = {**(own or {}).get("content", {}), **problem}
    return _answer(status, {"description": REASONS[status], "content": content})


def _answer(status: int, answer: Json) -> Json:
    described = dict(answer)
    if 300 <= status < 400:
        described.pop("content", None)
    if status in HEADERS:
        name, kind = HEADERS[status]
        described["headers"] = {name: {"schema": {"type": kind}}}
    return described


def _verdicts(words: str) -> Json:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Verdicts"}}}
    return {"description": words, "content": content}


def _parameter(parameter: Json) -> Json:
    """Return a parameter; the length of a page gets its bound, which the model does not have."""
    if parameter["name"] != "limit":
        return parameter
    return {**parameter, "schema": {**parameter["schema"], "minimum": 1, "maximum": LIMIT_MAX}}


_VERDICTS_OF: Final[Mapping[str, str]] = {
    "202": "Every event is stored, or was before",
    "207": "Some events were refused; the others are stored",
    "400": "The event is no JSON",
    "422": "Nothing in the request is a valid event",
}
