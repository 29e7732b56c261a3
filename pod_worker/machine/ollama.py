"""Asks the Ollama of this machine for its models: on the loopback interface alone, briefly, bounded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

import httpx
import msgspec

from events.delivery.pipe import FoundModel

PORT: Final = 11434
ANSWER_S: Final = 1.0
ANSWER_BYTES_MAX: Final = 1 << 20
NAME: Final = "ollama"


class _Tag(msgspec.Struct):
    name: str
    size: int | None = None


class _Tags(msgspec.Struct):
    models: list[_Tag] = []


def ollama_models(environ: Mapping[str, str]) -> list[FoundModel]:
    """Return the models that it lists; none where nothing answers in time, or something odd does."""
    port = re.search(r":(\d{1,5})/?\Z", environ.get("OLLAMA_HOST", "").strip())
    url = f"http://127.0.0.1:{port[1] if port else PORT}/api/tags"
    try:
        tags = msgspec.json.decode(asyncio.run(_answer(url)), type=_Tags)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError):
        return []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    return [FoundModel(name=each.name, bytes=each.size, engine=NAME) for each in tags.models]


async def _answer(url: str) -> bytes:
    """Return the body of an answer, empty for an odd one. Raises `TimeoutError`, also where headers drip."""
    async with (
        asyncio.timeout(ANSWER_S),
        httpx.AsyncClient(trust_env=False, timeout=ANSWER_S, follow_redirects=False) as client,
        client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer,
    ):
        body = b""
        if answer.status_code == httpx.codes.OK:
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    return b""
        return body
