"""Who did what to which object, over real HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.integration.command_line import podfleet

ROOT_KEY = "a-key-of-the-test"


def test_each_order_leaves_one_entry_that_names_who_gave_it_and_what_came_of_it(
    keyed_url: str, database: Any
) -> None:
    with httpx.Client(base_url=keyed_url, headers={"authorization": f"Bearer {ROOT_KEY}"}) as root:
        vera = root.post("/api/keys", json={"kind": "operator", "name": "vera"}).json()
        by_vera = {"authorization": f"Bearer {vera['key']}"}
        run_id = root.post("/api/runs", json={"kind": "probe"}, headers=by_vera).json()["id"]
        assert root.post(f"/api/runs/{run_id}/cancel", headers=by_vera).is_success
        assert root.post(f"/api/runs/{run_id}/pause", headers=by_vera).status_code == 409
        assert root.post("/api/pods/some/where/drain", headers=by_vera).status_code == 403
        assert root.post("/runs/none/notes", data={"text": "x"}, headers=by_vera).status_code == 404
        root.post("/api/ingest/events", content=b"", headers={"content-type": "application/x-ndjson"})
        assert httpx.post(f"{keyed_url}/api/runs", json={"kind": "probe"}).status_code == 401
        assert root.get("/api/runs").is_success

        def found(**filters: str) -> list[tuple[Any, ...]]:
            items = root.get("/api/audit", params=filters).json()["items"]
            return [(e["by"], e["action"], e["object"], e["status"], e["made"]) for e in reversed(items)]

        cancel = "POST /api/runs/{run_id}/cancel"
        expected = [
            ("root", "POST /api/keys", None, 201, f"/api/keys/{vera['id']}"),
            ("vera", "POST /api/runs", None, 201, f"/api/runs/{run_id}"),
            ("vera", cancel, f"run/{run_id}", 200, None),
            ("vera", "POST /api/runs/{run_id}/pause", f"run/{run_id}", 409, None),
            ("vera", "POST /api/pods/{pod_id}/drain", "pod/some/where", 403, None),
            ("vera", "POST /runs/{run_id}/notes", "run/none", 404, None),
        ]
        assert found() == expected
        assert found(key=vera["id"]) == found(by="vera") == expected[1:]
        assert found(object=f"run/{run_id}", action=cancel) == expected[2:3]
        assert len(root.get("/api/audit", params={"limit": 2}).json()["items"]) == 2
        text = root.get("/api/audit/export").text
        assert [json.loads(line)["status"] for line in text.splitlines()] == [each[3] for each in expected]
        assert vera["key"] not in text
        for path in ("/api/audit", "/api/audit/export", "/api/keys"):
            assert root.get(path, headers=by_vera).status_code == 403
        told = podfleet(keyed_url, "audit", "export", "--by", "vera", PODFLEET_API_KEY=ROOT_KEY)
        assert [json.loads(line)["by"] for line in told.stdout.splitlines()] == ["vera"] * 5, told.stderr
        listed = podfleet(keyed_url, "audit", "list", "--limit", "1", PODFLEET_API_KEY=ROOT_KEY)
        assert "POST /runs/{run_id}/notes" in listed.stdout, listed.stderr
        assert all(entry["at"] is not None for entry in database.audit.find())
