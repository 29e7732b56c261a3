"""What object storage is never asked."""

from __future__ import annotations

import asyncio

import pytest

from control_plane.blobs import open_blobs
from control_plane.config import read_storage
from events.errors import Rejected

NOWHERE = {
    "MINIO_ENDPOINT": "127.0.0.1:1",
    "MINIO_ACCESS_KEY": "key",
    "MINIO_SECRET_KEY": "secret-secret",
    "MINIO_REGION": "us-east-1",
}


@pytest.mark.parametrize("key", ["runs/a/a1/../../b/a1/x", "runs/./x", ""])
def test_a_key_that_no_object_can_have_is_refused_in_words(key: str) -> None:
    blobs = open_blobs(read_storage(NOWHERE))
    for ask in (blobs.get_url(key, name="x"), blobs.digest(key), blobs.beginning(key, 9)):
        with pytest.raises(Rejected) as refused:
            asyncio.run(ask)
        assert refused.value.code == "bad_key"
