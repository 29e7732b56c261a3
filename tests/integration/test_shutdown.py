"""A control plane that is told to stop answers every request that waits, and those that it cuts off."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from events.runtime.clock import SystemIds
from events.text.key_text import letters
from tests.integration.conftest import LOG, local_client, start_control_plane

WAITING = 200


async def test_every_waiting_pod_has_an_answer_before_the_server_goes(
    emptied_url: str, s3: Any, tmp_path: Path
) -> None:
    process, url = start_control_plane(tmp_path, emptied_url, s3)
    limits = httpx.Limits(max_connections=2 * WAITING)
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, limits=limits) as client:
        is_told = asyncio.Event()

        async def last_of(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
            """Ask until the server is told to stop: on a busy machine a first wait may be over before."""
            while True:
                answer = await ask()
                if is_told.is_set():
                    return answer

        async def claim(number: int) -> httpx.Response:
            token = letters(SystemIds().token())
            body = {"token": token, "pod": f"p{number}/b", "mode": "experiment", "kinds": ["probe"]}
            return await last_of(lambda: client.post("/api/claims", json={**body, "wait_s": 30}))

        async def half_a_request() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(b"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
            answer = await reader.read()
            writer.close()
            return answer

        waiting = [asyncio.create_task(claim(number)) for number in range(WAITING)]
        wakeup = {"class": "probe/cpu/any", "wait_s": "30"}
        waiting += [
            asyncio.create_task(last_of(lambda: client.get("/api/wakeups", params=wakeup))) for _ in range(20)
        ]
        cut_off = asyncio.create_task(half_a_request())
        with local_client(url) as other:
            while "podfleet_requests_waiting " + str(float(WAITING + 20)) not in other.get("/metrics").text:
                await asyncio.sleep(0.1)
        is_told.set()
        process.terminate()
        answers = await asyncio.gather(*waiting)
        last = await cut_off
    assert process.wait(60) in (0, -signal.SIGTERM)
    assert {each.status_code for each in answers} == {200}
    assert all(each.json().get("claim") is None for each in answers)
    assert last.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in last
    assert "Traceback" not in (tmp_path / LOG).read_text()
