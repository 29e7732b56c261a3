"""A route whose function returns a struct: what is sent, and what the document says of it."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
from fastapi import APIRouter, FastAPI, Response

from control_plane.server.api.contract.openapi import described
from control_plane.server.api.contract.struct_routes import REFERENCE, StructRoute, answers_of, reference
from events.answers.answer import Answer, Listing

TEXT = "application/json"


class Thing(Answer, frozen=True, kw_only=True):
    """A thing."""

    long_name: int


class Other(Answer, frozen=True, kw_only=True):
    """Another thing."""

    name: str


class Own(int):
    """A whole number of a type of its own, as the driver has for 64 bits."""


class Name(str):
    """A text that was checked."""

    __slots__ = ()


def routes() -> APIRouter:
    found = APIRouter(route_class=StructRoute)

    @found.get("/listed")
    async def listed() -> Listing[Thing]:
        return Listing(items=[Thing(long_name=Own(2**62))], next=Name("x"))

    @found.post("/made", status_code=201, responses={200: {"description": "It was there"}})
    async def made(response: Response, again: bool = False) -> Thing | Other:
        response.headers["Location"] = "/made/1"
        if again:
            response.status_code = 200
        return Other(name="é") if again else Thing(long_name=1)

    @found.get("/plain")
    async def plain() -> dict[str, int]:
        return {"a": 1}

    return found


async def test_an_answer_is_the_struct_with_the_status_and_headers_that_were_set() -> None:
    app = FastAPI()
    app.include_router(routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        listed = await client.get("/listed")
        assert (listed.status_code, listed.headers["content-type"]) == (200, TEXT)
        assert listed.json() == {"items": [{"longName": 2**62}], "next": "x"}
        made = await client.post("/made")
        assert (made.status_code, made.headers["location"], made.json()) == (201, "/made/1", {"longName": 1})
        again = await client.post("/made?again=true")
        assert (again.status_code, again.headers["location"], again.json()) == (200, "/made/1", {"name": "é"})
        assert (await client.get("/plain")).json() == {"a": 1}


def test_the_document_has_each_struct_once_and_every_status_of_a_route() -> None:
    router = routes()
    app = FastAPI()
    app.include_router(router)
    document = described(app.openapi(), answers_of(router))
    assert {"Thing", "Other", "Listing_Thing_"} <= document["components"]["schemas"].keys()

    def schema(method: str, path: str, status: str) -> Any:
        return document["paths"][path][method]["responses"][status]["content"][TEXT]["schema"]

    assert schema("get", "/listed", "200") == {"$ref": "#/components/schemas/Listing_Thing_"}
    both = {"anyOf": [{"$ref": "#/components/schemas/Thing"}, {"$ref": "#/components/schemas/Other"}]}
    assert schema("post", "/made", "201") == schema("post", "/made", "200") == both
    assert "$ref" not in schema("get", "/plain", "200")


@pytest.mark.parametrize(
    "answers",
    [(Thing,), (Thing, Other), (Listing[Thing],), (Listing[Listing[Thing]],), (Listing[str],)],
    ids=str,
)  # fmt: skip
def test_an_answer_is_where_the_document_has_it(answers: tuple[Any, ...]) -> None:
    schemas, _ = msgspec.json.schema_components(answers, ref_template=REFERENCE)
    assert reference(*answers) == (schemas[0] if len(schemas) == 1 else {"anyOf": [*schemas]})
