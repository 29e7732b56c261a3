"""A receiver of webhooks that takes, fails and lies as a test says, and verifies signatures by itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Lie = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Got:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def signatures_by(self, secret: str) -> list[bool]:
        """Say of each signature whether it is of this secret, as the specification has it."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = b".".join(
            [self.headers["webhook-id"].encode(), self.headers["webhook-timestamp"].encode(), self.body]
        )
        wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return [each == wanted for each in self.headers["webhook-signature"].split(" ")]


@dataclass
class Receiver:
    """A real server; each request gets the next reply: a status with headers, or a lie of its own."""

    got: list[Got] = field(default_factory=list)
    replies: deque[tuple[int, dict[str, str]] | Lie] = field(default_factory=deque)
    came: threading.Condition = field(default_factory=threading.Condition)

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30.0

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                names = {name.lower(): value for name, value in self.headers.items()}
                with receiver.came:
                    receiver.got.append(Got(self.path, names, body))
                    reply = receiver.replies.popleft() if receiver.replies else (204, {})
                    receiver.came.notify_all()
                if isinstance(reply, tuple):
                    answer(self, *reply)
                else:
                    reply(self)

            do_GET = do_POST

            def log_message(self, format: str, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.serving = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.serving.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.serving.join()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def wait_for(self, count: int, limit_s: float = 60.0) -> list[Got]:
        """Wait until so many requests came, and return them."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.got) >= count, limit_s), self.got
            return list(self.got)


def answer(request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str]) -> None:
    """Answer in order, without a body."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("content-length", "0")
    request.end_headers()
