"""The API is what its OpenAPI document says, whoever asks; `python -m testing.fuzz api` asks for longer."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from testing.fuzz.api import PHASES, Campaign

ROOT_KEY = "a-key-of-the-test"


ONE_OF_EACH = ("fuzzing", "stateful")
# Who has no key is refused whatever a field holds, so there its boundaries are left to the longer campaign.
REFUSED = ("fuzzing",)
LONG = pytest.mark.long("`make test` sends one request of each kind, without the boundaries of each field")


@pytest.mark.slow("a request of each kind to each route")
@pytest.mark.parametrize(
    ("is_known", "phases", "examples"),
    [
        pytest.param(True, ONE_OF_EACH, 1, id="with a key"),
        pytest.param(False, REFUSED, 1, id="without"),
        pytest.param(True, PHASES, 3, id="with a key, at length", marks=LONG),
        pytest.param(False, REFUSED, 3, id="without, at length", marks=LONG),
    ],
)
def test_every_answer_is_one_that_the_document_names(
    keyed_url: str, is_known: bool, phases: tuple[str, ...], examples: int
) -> None:
    tried = Campaign(url=keyed_url, key=ROOT_KEY, examples=examples, is_known=is_known, phases=phases).run()
    assert tried.returncode == 0, tried.stdout[-8_000:]
    assert "No issues found" in tried.stdout


def test_a_path_names_its_methods_and_has_a_head_wherever_it_has_a_get(fleet: Any) -> None:
    run_id = fleet.submit()
    methods = {
        "/api/runs": "HEAD, GET, POST",
        "/api/groups/x": "HEAD, GET, PATCH",
        "/api/schedules/x": "HEAD, GET, PUT, PATCH, DELETE",
        f"/api/runs/{run_id}/cancel": "POST",
        "/static/style.css": "HEAD, GET",
    }
    for path, allowed in methods.items():
        answer = fleet.client.request("QUERY", path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed), path
    for path in (
        "/",
        "/runs",
        f"/runs/{run_id}",
        f"/api/runs/{run_id}",
        "/healthz",
        "/api/stream",
        "/static/style.css",
    ):
        answer = fleet.client.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path
    assert fleet.client.head("/runs/none").status_code == httpx.codes.NOT_FOUND
    assert fleet.client.head(f"/api/runs/{run_id}/cancel").status_code == httpx.codes.METHOD_NOT_ALLOWED
    assert fleet.run(run_id)["status"] == "QUEUED"
