"""A scripted server of models and publications, over real HTTP on loopback.

It speaks `/v1/chat/completions` (OpenAI), `/v1/messages` (Anthropic) and `/paper/search` (an index
of publications), answers as a test tells it to, and keeps its own count of what it billed:

    with ModelServer([rate_limited(), Reply(text="hello")]) as server:      # one after the other
    with ModelServer(lambda asked: Reply(text=...)) as server:              # by what is asked
        ... OPENAI_BASE_URL=server.openai_url ... ANTHROPIC_BASE_URL=server.url ...
        server.asked        # every request: `.system`, `.text`, `.body`, `.headers`
        server.billed       # the sum over every answer that was sent whole with a usage

Run by hand, `python tests/integration/programs/model_server.py [TEXT]` answers TEXT to everything.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal, Self
from urllib.parse import parse_qs, urlsplit

Api = Literal["openai", "anthropic", "literature"]
PATHS: Final[Mapping[str, Api]] = {
    "/v1/chat/completions": "openai",
    "/v1/messages": "anthropic",
    "/paper/search": "literature",
}
LISTING: Final = "/v1/models"
HELD_LOOK_S: Final = 0.05
# What the developer's own environment names, read before a test clears it.
REAL_ENDPOINT: Final = {
    name: value for name, value in os.environ.items() if name.startswith(("OPENAI_", "ANTHROPIC_"))
}


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    number: int
    api: Api
    body: Mapping[str, Any]
    headers: Mapping[str, str]  # by lower-case names

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def system(self) -> str:
        """What the system prompt says."""
        if self.api == "openai":
            return "".join(each["content"] for each in self.body["messages"] if each["role"] == "system")
        return str(self.body.get("system", ""))

    @property
    def text(self) -> str:
        """What the user's message says; the query, of a look-up."""
        if self.api == "literature":
            return str(self.body.get("query", ""))
        return "".join(each["content"] for each in self.body["messages"] if each["role"] == "user")

    @property
    def prompt_tokens(self) -> int:
        """This server's count: every word is a token."""
        return len(self.system.split()) + len(self.text.split())


@dataclass(frozen=True, kw_only=True)
class Reply:
    """How one request is answered; as it stands, with success."""

    text: str = "ok"
    prompt_tokens: int | None = None  # None: counted
    completion_tokens: int | None = None
    has_usage: bool = True
    finish: Literal["stop", "length", "refused"] = "stop"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: tuple[str, str] = ("server_error", "it went wrong")  # code and message, where status is not 200
    delay_s: float = 0.0
    body: bytes | None = None  # in the place of what would be sent
    content_type: str = "application/json"
    cut_after: int | None = None  # bytes of the body after which the connection is closed
    drip_s: float = 0.0  # between two bytes of the body
    papers: tuple[Mapping[str, Any], ...] = ()
    until: threading.Event | None = None  # nothing is sent before it is set


def rate_limited(after: str | None = "0", **headers: str) -> Reply:
    """429; `headers` with _ for -, such as `retry_after_ms="20"`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if after is not None:
        named["retry-after"] = after
    return Reply(status=429, headers=named, error=("rate_limit_exceeded", "slow down"))


def failing(status: int = 500, message: str = "it went wrong", code: str = "server_error") -> Reply:
    return Reply(status=status, error=(code, message))


def out_of_quota() -> Reply:
    return Reply(status=429, error=("insufficient_quota", "You exceeded your current quota"))


def unauthorised(quoting: str = "sk-secret-of-a-test") -> Reply:
    return Reply(status=401, error=("invalid_api_key", f"Incorrect API key provided: {quoting}"))


def cut_off(text: str) -> Reply:
    return Reply(text=text, finish="length")


def without_usage(text: str = "ok") -> Reply:
    return Reply(text=text, has_usage=False)


def malformed(body: bytes = b'{"choices": [') -> Reply:
    return Reply(body=body)


def broken_off(after: int = 10) -> Reply:
    """The connection is closed in the middle of the answer."""
    return Reply(cut_after=after)


def late(seconds: float, text: str = "ok") -> Reply:
    return Reply(text=text, delay_s=seconds)


@dataclass
class Billed:
    """What the server counted of the answers that it sent whole, with a usage."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


Script = Callable[[Asked], Reply] | Iterable[Reply]


class ModelServer:
    """The server; a list of replies that is used up answers 500 and says so."""

    def __init__(self, script: Script = (), host: str = "127.0.0.1") -> None:
        self.asked: list[Asked] = []
        self.billed = Billed()
        self.listing = Reply(status=404)  # how `GET /v1/models` is answered
        self.listed = 0
        self.connections = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        steps = None if callable(script) else iter(script)
        self._answer = script if callable(script) else lambda _: next(steps, _used_up())  # type: ignore[arg-type]
        self._server = _Server((host, 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The address, for `ANTHROPIC_BASE_URL` and `PODFLEET_LITERATURE_URL`."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    @property
    def openai_url(self) -> str:
        """The address, for `OPENAI_BASE_URL`."""
        return f"{self.url}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()  # whoever is being late stops waiting
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, api: Api, body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[Asked, Reply]:
        """Note a request, and say how it is answered; in the order in which requests come."""
        with self._lock:
            asked = Asked(len(self.asked) + 1, api, body, headers)
            self.asked.append(asked)
            return asked, self._answer(asked)

    def bill(self, prompt_tokens: int, completion_tokens: int) -> None:
        with self._lock:
            self.billed.requests += 1
            self.billed.prompt_tokens += prompt_tokens
            self.billed.completion_tokens += completion_tokens

    def connected(self) -> None:
        with self._lock:
            self.connections += 1

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    def pause(self, seconds: float) -> None:
        self._closing.wait(seconds)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (_Handler,), {"owner": self})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that does not wait is no error
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: ModelServer

    def setup(self) -> None:
        super().setup()
        self.owner.connected()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self._serve(url.path, {name: values[-1] for name, values in parse_qs(url.query).items()})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self._serve(urlsplit(self.path).path, json.loads(self.rfile.read(length) or b"{}"))

    def _serve(self, path: str, body: Mapping[str, Any]) -> None:
        if path == LISTING:
            self.owner.listed += 1
            self._send(self.owner.listing, b'{"data": []}')
            return
        api = PATHS.get(path)
        if api is None:
            self._send(Reply(status=404), _error("openai", Reply(error=("not_found", f"no {path} here"))))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked, reply = self.owner.take(api, body, headers)
        if reply.delay_s:
            self.owner.pause(reply.delay_s)
        while reply.until is not None and not reply.until.is_set() and not self.owner.is_closing:
            self.owner.pause(HELD_LOOK_S)
        prompt, completion = _counts(asked, reply)
        content = reply.body if reply.body is not None else _content(asked, reply, prompt, completion)
        if self._send(reply, content) and reply.status == 200 and reply.has_usage and reply.body is None:
            self.owner.bill(prompt, completion)

    def _send(self, reply: Reply, content: bytes) -> bool:
        """Send an answer; return whether all of it went."""
        self.send_response(reply.status)
        for name, value in {"Content-Type": reply.content_type, **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        kept = content if reply.cut_after is None else content[: reply.cut_after]
        if reply.drip_s:
            for at in range(len(kept)):
                self.wfile.write(kept[at : at + 1])
                self.owner.pause(reply.drip_s)
        else:
            self.wfile.write(kept)
        if len(kept) == len(content):
            return True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
        return False

    def log_message(self, *_: object) -> None:
        """Say nothing: nobody reads it."""


def _used_up() -> Reply:
    return failing(500, "the script of this test has no more replies")


def _counts(asked: Asked, reply: Reply) -> tuple[int, int]:
    prompt = asked.prompt_tokens if asked.api != "literature" else 0
    return (
        prompt if reply.prompt_tokens is None else reply.prompt_tokens,
        len(reply.text.split()) if reply.completion_tokens is None else reply.completion_tokens,
    )


def _content(asked: Asked, reply: Reply, prompt: int, completion: int) -> bytes:
    if reply.status != 200:
        return _error(asked.api, reply)
    made: dict[str, Any]
    if asked.api == "openai":
        made = {
            "id": f"chatcmpl-{asked.number}",
            "object": "chat.completion",
            "created": 1,
            "model": asked.model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": reply.text},
                    "finish_reason": "content_filter" if reply.finish == "refused" else reply.finish,
                }
            ],
        }
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
    elif asked.api == "anthropic":
        reasons = {"stop": "end_turn", "length": "max_tokens", "refused": "refusal"}
        made = {
            "id": f"msg_{asked.number}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": [{"type": "text", "text": reply.text}],
            "stop_reason": reasons[reply.finish],
            "stop_sequence": None,
        }
        usage = {"input_tokens": prompt, "output_tokens": completion}
    else:
        return json.dumps({"total": len(reply.papers), "offset": 0, "data": reply.papers}).encode()
    return json.dumps(made | ({"usage": usage} if reply.has_usage else {})).encode()


def _error(api: Api, reply: Reply) -> bytes:
    code, message = reply.error
    if api == "anthropic":
        return json.dumps({"type": "error", "error": {"type": code, "message": message}}).encode()
    return json.dumps({"error": {"message": message, "type": code, "code": code, "param": None}}).encode()


def main() -> None:
    text = " ".join(sys.argv[1:]) or "ok"
    with ModelServer(lambda _: Reply(text=text)) as server:
        print("PODFLEET_PRIVATE_HOSTS=127.0.0.1", end=" ")
        print(f"OPENAI_BASE_URL={server.openai_url} ANTHROPIC_BASE_URL={server.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
