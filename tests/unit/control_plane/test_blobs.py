"""What object storage is never asked."""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from control_plane.config import read_storage
from control_plane.files.blobs import open_blobs
from events.runtime.errors import PodfleetError, Rejected, Transient

NOWHERE = {
    "MINIO_ENDPOINT": "127.0.0.1:1",
    "MINIO_ACCESS_KEY": "key",
    "MINIO_SECRET_KEY": "secret-secret",
    "MINIO_REGION": "us-east-1",
}


@pytest.mark.parametrize("key", ["runs/a/a1/../../b/a1/x", "runs/./x", "", "é" * 513])
def test_a_key_that_no_object_can_have_is_refused_in_words(key: str) -> None:
    blobs = open_blobs(read_storage(NOWHERE))
    for ask in (blobs.get_url(key, name="x"), blobs.digest(key), blobs.beginning(key, 9)):
        with pytest.raises(Rejected) as refused:
            asyncio.run(ask)
        assert refused.value.code == "bad_key"


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, Rejected, "storage_refuses"),
        (414, Rejected, "storage_refuses"),
        (403, Transient, "storage_unreachable"),
        (429, Transient, "storage_unreachable"),
    ],
)
def test_what_the_storage_refuses_for_good_is_no_outage(
    status: int, error: type[PodfleetError], code: str
) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as storage:
        threading.Thread(target=storage.serve_forever, daemon=True).start()
        blobs = open_blobs(read_storage({**NOWHERE, "MINIO_ENDPOINT": f"127.0.0.1:{storage.server_port}"}))
        with pytest.raises(error) as refused:
            asyncio.run(blobs.version("runs/x"))
        storage.shutdown()
        assert refused.value.code == code
