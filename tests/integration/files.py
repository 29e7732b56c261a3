"""Files that a test puts into the storage as a worker does."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx

from events.catalog import ArtifactRegistered
from events.delivery.control_plane_client import bearer


def keep(
    hand: Any, name: str, content: bytes, content_type: str = "image/png", *, put_as: str | None = None
) -> None:
    """Upload a file as a worker does, and register it; `put_as` is the type that the storage is told."""
    digest = hashlib.sha256(content).hexdigest()
    described = {"name": name, "size": len(content), "sha256": digest, "content_type": content_type}
    claim = hand.claim
    headers = bearer(claim.run_token)
    url = f"/api/runs/{claim.run_id}/artifacts/presign"
    signed = hand.client.post(url, json=described, headers=headers)
    assert signed.status_code == 200, signed.text
    told = {} if put_as is None else {"Content-Type": put_as}
    stored = httpx.put(signed.json()["url"], content=content, headers=told, trust_env=False)
    assert stored.status_code == 200, stored.text
    hand.say(ArtifactRegistered(key=signed.json()["key"], **described))
