"""An object storage with a clock of its own: one bucket in memory, that refuses what another clock signed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from events.runtime.clock import SystemClock

BUCKET: Final = "podfleet"
SKEW_MAX: Final = timedelta(minutes=15)  # as S3, MinIO and rclone have it
ACCESS_KEY: Final = "storage"
SECRET_KEY: Final = "storage-secret"


@dataclass(slots=True)
class TimedStorage:
    """What the server holds, how wrong its clock is, and which requests it refused for that."""

    ahead_s: float = 0.0
    tells_time: bool = True
    refuses_keys: bool = False
    port: int = 0
    objects: dict[str, bytes] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "MINIO_ENDPOINT": f"127.0.0.1:{self.port}",
            "MINIO_ACCESS_KEY": ACCESS_KEY,
            "MINIO_SECRET_KEY": SECRET_KEY,
            "MINIO_BUCKET": BUCKET,
            "MINIO_REGION": "us-east-1",
            "MINIO_SECURE": "false",
        }

    def now(self) -> datetime:
        return SystemClock().now() + timedelta(seconds=self.ahead_s)

    def objection(self, query: dict[str, list[str]], date: str | None) -> str | None:
        """Say why the time of a signature is not good; None where it is, or where nothing is signed."""
        signed = query.get("X-Amz-Date", [date])[0]
        if signed is None or self.refuses_keys:
            return "AccessDenied"
        at = datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if "X-Amz-Expires" in query:
            life = timedelta(seconds=int(query["X-Amz-Expires"][0]))
            return None if at - SKEW_MAX <= self.now() <= at + life else "AccessDenied"
        return None if abs(self.now() - at) <= SKEW_MAX else "RequestTimeTooSkewed"


@contextmanager
def serving(storage: TimedStorage) -> Iterator[TimedStorage]:
    """Serve on loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(size)
            parts = urlsplit(self.path)
            problem = storage.objection(parse_qs(parts.query), self.headers.get("x-amz-date"))
            if problem is not None:
                if parts.path != "/":
                    storage.refused.append(f"{self.command} {parts.path} {problem}")
                self._send(403, f"<Error><Code>{problem}</Code><Message>no</Message></Error>".encode())
            elif parts.query.startswith("uploads"):
                self._send(404, b"<Error><Code>NoSuchUpload</Code><Message>no</Message></Error>")
            elif parts.path.strip("/") == BUCKET:
                self._send(200, b"")
            elif self.command == "PUT":
                storage.objects[parts.path] = body
                self._send(200, b"", ETag=f'"{hashlib.sha256(body).hexdigest()[:32]}"')
            elif parts.path in storage.objects:
                held = storage.objects[parts.path]
                stamp = {"Last-Modified": format_datetime(storage.now(), usegmt=True)}
                self._send(200, held, ETag=f'"{hashlib.sha256(held).hexdigest()[:32]}"', **stamp)
            else:
                self._send(404, b"<Error><Code>NoSuchKey</Code><Message>no</Message></Error>")

        do_GET = do_HEAD = do_PUT = _answer

        def _send(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response_only(status)
            if storage.tells_time:
                self.send_header("Date", format_datetime(storage.now(), usegmt=True))
            self.send_header("Content-Type", "application/xml" if status >= 400 else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        storage.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield storage
        finally:
            server.shutdown()
            thread.join()
