"""What a submission asks of MongoDB, counted and not timed."""

from __future__ import annotations

from typing import Any

import httpx

from control_plane.server.app import create_app
from tests.integration.in_process import control_plane


async def test_a_submission_reads_nothing_of_what_it_has_made(database_url: str) -> None:
    wanted = {"kind": "probe", "spec": {"seconds": 0}}
    async with control_plane(database_url) as deps:
        transport = httpx.ASGITransport(create_app(deps))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asking:

            async def submitted() -> Any:
                return (await asking.post("/api/runs", json=wanted)).raise_for_status().json()

            await submitted()  # looks whether there are keys
            await deps.db.command("profile", 2)
            made = await submitted()
            await deps.db.command("profile", 0)
            told = (await asking.get(f"/api/runs/{made['id']}")).json()
        noted = (
            deps.db["system.profile"]
            .find({"op": {"$in": ["query", "command", "getmore"]}})
            .sort("$natural", 1)
        )
        asked = [each["command"] async for each in noted]
    assert [each.get("findAndModify") for each in asked if "profile" not in each] == ["run_specs", "runs"]
    assert made == told
