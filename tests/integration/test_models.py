"""The catalogue of models: set, synced, shown and removed, over HTTP, on the page and on the command line."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from control_plane.runs.models.catalogue import Catalogue
from control_plane.runs.models.fetching import Fetcher
from control_plane.runs.models.start_sync import StartSync
from control_plane.store.catalogue.models import ModelEntries
from events.delivery.control_plane_client import bearer
from events.runtime.egress_policy import read_egress_policy
from events.runtime.errors import Transient
from tests.integration.command_line import within
from tests.integration.conftest import Fleet
from tests.integration.in_process import control_plane

KEY: Final = "the-key-of-the-test"
pytestmark = pytest.mark.common_fleet(key=KEY)

ENDPOINT = {"model": "big-1", "base_url": "https://api.example.com/v1/", "secret": "FAST_KEY"}
SERVED = {"engine": "xllamacpp", "weights": "smollm2", "parameters": {"n_parallel": 8, "share": 0.9}}


@contextmanager
def listing(*rows: Any) -> Iterator[str]:
    """Serve a listing of models on this machine."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": rows}).encode())

        def log_message(self, *_: object) -> None:
            """Keep silent."""

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_models_are_set_read_and_removed(fleet: Fleet) -> None:
    made = fleet.client.put(
        "/api/models/fast", json={"endpoint": ENDPOINT, "input_usd_per_mtok": 0.5, "context_tokens": 8_000}
    )
    assert made.status_code == 201, made.text
    assert made.json()["endpoint"] == {
        "provider": "openai", "model": "big-1", "baseUrl": "https://api.example.com/v1", "secret": "FAST_KEY",
    }  # fmt: skip
    again = fleet.client.put("/api/models/fast", json={"served": SERVED, "title": "Small"})
    assert (again.status_code, again.json()["revision"]) == (200, 2)
    assert again.json()["served"]["parameters"] == {"n_parallel": 8, "share": 0.9}
    assert (again.json()["endpoint"], again.json()["contextTokens"]) == (None, None)
    assert again.json()["createdAt"] == made.json()["createdAt"]
    assert fleet.client.get("/api/models/fast").json() == again.json()
    assert fleet.client.get("/api/models").json()["items"] == [again.json()]
    assert fleet.client.delete("/api/models/fast").status_code == 204
    assert fleet.client.delete("/api/models/fast").json()["code"] == "unknown_model"
    entries = fleet.client.get("/api/audit", params={"object": "model/fast"}).json()["items"]
    assert [each["action"].split()[0] for each in entries if each["status"] < 300] == ["DELETE", "PUT", "PUT"]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("Fast", {"served": SERVED}),
        ("a" * 101, {"served": SERVED}),
        ("fast", {}),
        ("fast", {"served": SERVED, "endpoint": ENDPOINT}),
        ("fast", {"served": {**SERVED, "weights": "../smollm2"}}),
        ("fast", {"served": {**SERVED, "weights": "a/../b"}}),
        ("fast", {"served": {**SERVED, "parameters": {"a": [1]}}}),
        ("fast", {"served": {**SERVED, "parameters": {f"a{number}": 1 for number in range(51)}}}),
        ("fast", {"served": {**SERVED, "parameters": {"$a.b": 1}}}),
        ("fast", {"endpoint": {**ENDPOINT, "base_url": "https://user:key@api.example.com"}}),
        ("fast", {"endpoint": {**ENDPOINT, "base_url": "file:///etc/passwd"}}),
        ("fast", {"endpoint": {**ENDPOINT, "base_url": f"https://a.example/{'a' * 500}"}}),
        ("fast", {"endpoint": {**ENDPOINT, "provider": "somebody"}}),
        ("fast", {"endpoint": {**ENDPOINT, "secret": "PATH=1"}}),
        ("fast", {"endpoint": ENDPOINT, "input_usd_per_mtok": -1}),
        ("fast", {"endpoint": ENDPOINT, "context_tokens": 10**10}),
        ("fast", {"endpoint": ENDPOINT, "api_key": "sk-1"}),
    ],
)
def test_what_is_no_model_is_refused(fleet: Fleet, name: str, body: dict[str, Any]) -> None:
    answer = fleet.client.put(f"/api/models/{name}", json=body)
    assert answer.status_code == 422, answer.text
    assert fleet.client.get("/api/models").json()["items"] == []


def test_a_sync_adds_and_updates_and_redirects_no_secret(fleet: Fleet) -> None:
    elsewhere = {"endpoint": ENDPOINT}
    assert fleet.client.put("/api/models/taken", json=elsewhere).status_code == 201
    priced = {"id": "org/priced", "pricing": {"prompt": "0.000001", "completion": "0.000002"}}
    with listing(priced, {"id": "taken"}, {"id": "plain"}, {"id": 7}) as url:
        own = {"endpoint": {"model": "plain", "base_url": url, "secret": "MINE"}, "input_usd_per_mtok": 3}
        assert fleet.client.put("/api/models/plain", json=own).status_code == 201
        done = fleet.client.post("/api/model-syncs", json={"url": url})
        assert done.status_code == 200, done.text
        told = {"url": f"{url}/models", "added": 1, "updated": 1, "kept": 1, "unreadable": 1, "leftOut": 0}
        assert done.json() == told
        again = fleet.client.post("/api/model-syncs", json={"url": f"{url}/models"}).json()
        assert (again["added"], again["updated"]) == (0, 2)
    found = {each["id"]: each for each in fleet.client.get("/api/models").json()["items"]}
    assert [*found] == ["org-priced", "plain", "taken"]
    assert (found["org-priced"]["inputUsdPerMtok"], found["org-priced"]["outputUsdPerMtok"]) == (1, 2)
    assert found["org-priced"]["endpoint"]["secret"] is None
    assert (found["plain"]["endpoint"]["secret"], found["plain"]["inputUsdPerMtok"]) == ("MINE", 3)
    assert found["plain"]["syncedFrom"] == f"{url}/models"
    assert found["taken"]["endpoint"]["baseUrl"] == "https://api.example.com/v1"
    assert found["taken"]["syncedFrom"] is None
    for address, code in (("http://10.0.0.1/v1", "address_refused"), ("http://127.0.0.1:1/v1", None)):
        refused = fleet.client.post("/api/model-syncs", json={"url": address})
        assert refused.json()["code"] == (code or "listing_unreachable"), refused.text


def test_the_page_shows_syncs_and_removes(fleet: Fleet) -> None:
    with listing({"id": "<b>bold</b>", "name": "<script>", "context_length": 4_096}) as url:
        page = fleet.client.post("/models/sync", data={"url": f" {url} "})
    assert page.status_code == 200, page.text
    assert "1 added" in page.text
    assert "<code>b-bold-b-</code>" in page.text
    assert "&lt;script&gt;" in page.text
    assert "4,096" in page.text
    refused = fleet.client.post("/models/sync", data={"url": "nowhere"})
    assert (refused.status_code, "has to be an address" in refused.text) == (422, True)
    assert 'value="nowhere"' in refused.text
    away = fleet.client.post("/models/sync", data={"url": "http://127.0.0.1:1"})
    assert (away.status_code, "cannot be reached" in away.text) == (503, True)
    viewer = fleet.client.post("/api/keys", json={"kind": "viewer", "name": "test"}).json()["key"]
    seen = fleet.client.get("/models", headers=bearer(viewer)).text
    assert ("b-bold-b-" in seen, "Sync from" in seen) == (True, False)
    removed = fleet.client.post("/models/b-bold-b-/remove", follow_redirects=False)
    assert (removed.status_code, removed.headers["location"]) == (303, "/models")
    assert "There is no model yet" in fleet.client.get("/models").text


def test_a_form_adds_and_changes_models(fleet: Fleet, database: Any) -> None:
    def sent(**typed: str) -> Any:
        return fleet.client.post("/models", data=typed, follow_redirects=False)

    typed = {"name": "fast", "base_url": "https://api.example.com/v1", "secret": "FAST_KEY"}
    made = sent(**typed, model="big-1", input_usd_per_mtok="0.15", context_tokens="8000")
    assert (made.status_code, made.headers["location"]) == (303, "/models#m-fast")
    found = fleet.client.get("/api/models/fast").json()
    assert found["endpoint"] == {
        "provider": "openai", "model": "big-1", "baseUrl": "https://api.example.com/v1", "secret": "FAST_KEY",
    }  # fmt: skip
    assert (found["inputUsdPerMtok"], found["outputUsdPerMtok"], found["contextTokens"]) == (0.15, None, 8000)
    edit = fleet.client.get("/models/fast/edit").text
    for value in ("https://api.example.com/v1", "FAST_KEY", "big-1", "0.15", "8000"):
        assert f'value="{value}"' in edit
    served = sent(name="fast", engine="xllamacpp", weights="smollm2", parameters="n_ctx=512\r\nflash=true")
    assert served.status_code == 303
    assert fleet.client.get("/api/models/fast").json()["served"]["parameters"] == {
        "n_ctx": 512,
        "flash": True,
    }
    assert "n_ctx=512\nflash=true" in fleet.client.get("/models/fast/edit").text
    odd = {"a": "5", "b": "true", "c": "x\nd=2", "d": " s ", "e": 5, "f": True, "g": "\u2028", "h": ""}
    parameters = {"engine": "xllamacpp", "weights": "smollm2", "parameters": odd}
    assert fleet.client.put("/api/models/fast", json={"served": parameters}).status_code == 200
    edit = fleet.client.get("/models/fast/edit").text
    shown = re.search(r'name="parameters"[^>]*>\n(.*?)</textarea>', edit, re.DOTALL)
    assert shown
    again = unescape(shown[1]).replace("\n", "\r\n")
    assert sent(name="fast", engine="xllamacpp", weights="smollm2", parameters=again).status_code == 303
    assert fleet.client.get("/api/models/fast").json()["served"]["parameters"] == odd
    for wrong in (
        {"name": "fast"},
        {**typed, "engine": "e", "weights": "w"},
        {**typed, "name": "../x"},
        {**typed, "base_url": "file:///etc/passwd"},
        {**typed, "input_usd_per_mtok": "nan"},
        {**typed, "context_tokens": "many"},
        {"name": "fast", "engine": "e", "weights": "w", "parameters": "no pair"},
    ):
        refused = sent(**wrong)
        assert refused.status_code == 422, wrong
    assert fleet.client.get("/api/models/fast").json()["revision"] == 4


def test_the_last_scores_of_a_model_link_to_their_runs(fleet: Fleet, database: Any) -> None:
    assert fleet.client.put("/api/models/fast", json={"served": SERVED}).status_code == 201
    ids = [fleet.submit("benchmark", spec={"model": "fast", "suites": "gsm8k"}) for _ in range(3)]
    said = (
        {"score_gsm8k": 0.5, "score_aime": 0.25},
        {"score_gsm8k": 0.75, "tokens": 9},
        {"score_gsm8k": 1.0},
    )
    for run_id, summary, status in zip(ids, said, ("COMPLETED", "COMPLETED", "FAILED"), strict=True):
        database.runs.update_one({"_id": run_id}, {"$set": {"summary": summary, "status": status}})
    page = fleet.client.get("/models").text
    assert f'<a href="/runs/{ids[1]}/results">75.0%</a> <small>score_gsm8k</small>' in page
    assert f'<a href="/runs/{ids[0]}/results">25.0%</a> <small>score_aime</small>' in page
    assert ids[2] not in page, "a run that failed is not whole"


def test_the_command_line_sets_shows_syncs_and_deletes(fleet: Fleet, tmp_path: Path) -> None:
    def said(*words: str, status: int = 0) -> str:
        done = within(fleet.url, "models", *words, cwd=tmp_path, PODFLEET_API_KEY=KEY)
        assert done.returncode == status, done.stderr
        return done.stdout

    placed = ("--engine", "xllamacpp", "--weights", "smollm2", "-p", "n_ctx=512")
    assert said("set", "small", *placed).strip() == "small is set: smollm2 by xllamacpp"
    assert "512" in said("show", "small")
    assert json.loads(said("show", "small", "--json"))["served"]["parameters"] == {"n_ctx": 512}
    with listing({"id": "listed"}) as url:
        assert "1 added" in said("sync", url)
    assert said("list", "--ids").split() == ["listed", "small"]
    assert said("delete", "small").strip() == "small is removed"
    said("set", "none", status=2)
    said("show", "small", status=1)


async def test_of_two_control_planes_that_start_together_one_reads_the_listing(emptied_url: str) -> None:
    """One whose listing is away tries again; none is read without an address."""
    async with control_plane(emptied_url) as first, control_plane(emptied_url) as second:
        fetch = Fetcher(read_egress_policy("127.0.0.1")).fetch
        ours, theirs = (Catalogue(ModelEntries(each.db), fetch) for each in (first, second))
        away = StartSync(ours, "http://127.0.0.1:1/v1", first.ids)
        for _ in "ab":
            with pytest.raises(Transient):
                await away.run_once()
        with listing({"id": "listed"}) as url:
            both = [StartSync(ours, url, first.ids), StartSync(theirs, url, second.ids)]
            done = await asyncio.gather(*(each.run_once() for each in both))
            assert [each.added for each in done if each is not None] == [1]
            assert await asyncio.gather(*(each.run_once() for each in both)) == [None, None]
            assert (await first.catalogue.find("listed")).updated_by == "start"
        with listing("no row") as url:
            refused = StartSync(ours, f"{url}?key=1", first.ids)
            assert await refused.run_once() is None, "an address with a query is refused, and said in the log"
        assert await StartSync(ours, "", first.ids).run_once() is None
