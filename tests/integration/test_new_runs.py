"""The kinds as the API tells of them, and the page of a new run, in process; for a kind of every type too."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from control_plane.runs import submission
from control_plane.server.app import create_app
from control_plane.server.web.pages import new_run
from events.kinds import KINDS, RUN_KINDS
from events.kinds.declaring.fields import fields_of
from tests.integration.in_process import control_plane
from tests.unit.events.all_fields import ALL

FORM = {"content-type": "application/x-www-form-urlencoded"}
NEEDED = {"spec.text": "a <b>text", "spec.who": "me", "spec.count": "5", "spec.choice": "a"}


@pytest.fixture
async def deps(emptied_url: str) -> AsyncIterator[Any]:
    async with control_plane(emptied_url) as found:
        yield found


@pytest.fixture
async def asking(deps: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """The application, where the kind of every type is installed too."""
    monkeypatch.setitem(KINDS, ALL.name, ALL)  # type: ignore[arg-type]
    for module in (submission, new_run):
        monkeypatch.setattr(module, "RUN_KINDS", RUN_KINDS | {ALL.name})
    transport = httpx.ASGITransport(create_app(deps))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def sent(asking: httpx.AsyncClient, typed: Mapping[str, str], do: str = "submit") -> httpx.Response:
    """Send the form of the kind of every type."""
    body = urlencode({"kind": ALL.name, "do": do, **typed})
    return await asking.post("/runs/new", content=body, headers=FORM)


async def test_every_kind_is_told_with_what_it_takes_and_who_serves_it(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    now = deps.clock.now()
    pod = {"state": "idle", "reportedAt": now, "startedAt": now, "kinds": ["probe", "experiment"]}
    silent = {**pod, "reportedAt": now - timedelta(hours=1)}
    drained = {**pod, "orders": {"drain": True}}
    for number, each in enumerate(
        (pod, {**pod, "kinds": ["probe"]}, silent, drained, {**pod, "state": "draining"})
    ):
        await deps.db.pods.insert_one({"_id": f"p/{number}", **each})
    found = (await asking.get("/api/kinds")).json()
    told = {each["name"]: each for each in found["items"]}
    assert (found["next"], sorted(told)) == (None, sorted(KINDS))
    assert {name for name, each in told.items() if each["isOpen"]} == RUN_KINDS | {ALL.name}
    assert {name: each["livePods"] for name, each in told.items() if each["livePods"]} == {
        "probe": 2, "experiment": 1,
    }  # fmt: skip
    for name, each in told.items():
        assert [field.name for field in fields_of(each["specSchema"])] == [
            *KINDS[name].spec.__struct_encode_fields__
        ]
        assert (each["says"], each["stages"]) == (KINDS[name].says, list(KINDS[name].stages))
    one = await asking.get(f"/api/kinds/{ALL.name}")
    assert one.json() == told[ALL.name]
    unknown = await asking.get("/api/kinds/nonsense")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_kind")
    assert "known kinds: all_fields, benchmark, compute, experiment" in unknown.json()["detail"]


async def test_the_document_tells_what_a_kind_answers(asking: httpx.AsyncClient) -> None:
    document = (await asking.get("/openapi.json")).json()
    answers = document["paths"]["/api/kinds/{name}"]["get"]["responses"]
    reference = answers["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    properties = document["components"]["schemas"][reference]["properties"]
    assert properties.keys() == (await asking.get("/api/kinds/probe")).json().keys()
    assert {"404", "401"} <= answers.keys()


async def test_a_kind_is_chosen_and_one_that_is_not_open_is_none(asking: httpx.AsyncClient) -> None:
    page = (await asking.get("/runs/new")).text
    assert set(re.findall(r'href="/runs/new\?kind=([^"&]+)"', page)) == RUN_KINDS | {ALL.name}
    assert "<form class=" not in page
    closed = next(name for name in KINDS if name not in RUN_KINDS and name != ALL.name)
    for name in (closed, "nonsense", "%00"):
        answer = await asking.get(f"/runs/new?kind={name}", headers={"accept": "text/html"})
        assert (answer.status_code, "known kinds: all_fields" in answer.text) == (422, True)
    for path in ("/", "/runs"):
        assert '<a href="/runs/new">New run</a>' in (await asking.get(path)).text


async def test_what_is_typed_is_checked_and_nothing_is_queued(deps: Any, asking: httpx.AsyncClient) -> None:
    answer = await sent(asking, {**NEEDED, "spec.limits.first": "2", "requires.gpu_gib": "24"}, do="check")
    assert answer.status_code == 200
    assert "The run is valid; nothing was queued" in answer.text
    assert "<code>all_fields/24/any</code>" in answer.text
    assert "&#34;until_text&#34;: &#34;never&#34;" in answer.text, "every default is told"
    assert 'name="spec.limits.first" aria-describedby="f' in answer.text
    assert 'value="a &lt;b&gt;text"' in answer.text, "what was typed stays"
    assert await deps.db.runs.count_documents({}) == 0
    wrong = await sent(asking, {**NEEDED, "spec.limits.first": "x"}, do="check")
    assert wrong.status_code == 422


async def test_what_is_wrong_stands_at_its_field_and_nothing_typed_is_lost(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    typed = {
        "spec.text": "</textarea>",
        "spec.who": "{",
        "spec.count": "50",
        "labels": "team",
        "spec.flag": "false",
    }
    answer = await sent(asking, typed)
    assert answer.status_code == 422
    html = answer.text
    for name, words in {
        "spec.who": "text does not begin with {",
        "spec.count": "Expected `int` &lt;= 10",
        "spec.choice": "say something here",
        "labels": "is not name=value",
    }.items():
        (described,) = re.findall(rf'name="{name}" aria-describedby="([^"]+)" aria-invalid="true"', html)
        assert words in re.findall(rf'<p class="bad" id="{described.split()[-1]}">(.*)</p>', html)[0]
    assert 'value="&lt;/textarea&gt;"' in html
    assert "\n{</textarea>" in html
    assert "<option selected>false</option>" in html
    assert await deps.db.runs.count_documents({}) == 0


async def test_a_form_is_one_run_however_often_its_button_is_pressed(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    page = (await asking.get(f"/runs/new?kind={ALL.name}")).text
    (pressed,) = re.findall(r'name="pressed" value="([^"]+)"', page)
    typed = {**NEEDED, "spec.names": '["x"]', "labels": "team=vision", "priority": "7", "pressed": pressed}
    first, again = await sent(asking, typed), await sent(asking, typed)
    assert (first.status_code, first.headers["location"]) == (303, again.headers["location"])
    other = await sent(asking, {**typed, "spec.count": "6"})
    assert (other.status_code, other.headers["location"] == first.headers["location"]) == (303, False)
    assert await deps.db.runs.count_documents({}) == 2
    run = (await asking.get(f"/api{first.headers['location']}")).json()
    assert (run["kind"], run["title"], run["priority"]) == (ALL.name, "a <b>text", 7)
    assert run["labels"] == {"team": "vision"}
    assert run["spec"] == {"text": "a <b>text", "who": "me", "count": 5, "choice": "a", "names": ["x"]}
    next_page = (await asking.get(f"/runs/new?kind={ALL.name}")).text
    assert f'value="{pressed}"' not in next_page


async def test_a_hostile_form_is_refused_in_words(asking: httpx.AsyncClient) -> None:
    bodies = {
        b"": 422,
        b"kind=nonsense": 422,
        b"kind=all_fields": 422,
        b"kind=all_fields&spec.text=%FF%FE&spec.who=%00": 422,
        b"kind=all_fields&spec.text=1&spec.text=2&pressed=" + b"x" * 9_000: 422,
        b"kind=all_fields&spec.anything=" + b"%5B" * 50_000: 422,
        b"&".join(b"spec.x%d=1" % number for number in range(2_000)): 413,
        b"kind=all_fields&spec.text=" + b"x" * (3 << 20): 413,
    }
    for body, status in bodies.items():
        answer = await asking.post("/runs/new", content=body, headers={**FORM, "accept": "text/html"})
        assert answer.status_code == status, (body[:100], answer.text[:500])
        assert "Traceback" not in answer.text


async def test_who_may_only_look_gets_neither_the_link_nor_the_form(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    made = (await asking.post("/api/keys", json={"kind": "admin", "name": "r", "scopes": ["read"]})).json()
    mine = {"authorization": f"Bearer {made['key']}"}
    assert "/runs/new" not in (await asking.get("/runs", headers=mine)).text
    assert (await asking.get("/runs/new", headers=mine)).status_code == 403
    assert (await asking.post("/runs/new", headers=mine | FORM)).status_code == 403
