"""`python -m testing.engine_double`: a server of the API of OpenAI, with metrics and faults of engines.

It is as fast as its parameters make it, and counts a word as a token. `--help` lists what it can do wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from testing.engine_double.surface import CACHES, PROMPT_SPEED, noisy, refusal, tokens_per_s

HEAD_BYTES_MAX: Final = 64 << 10
BODY_BYTES_MAX: Final = 16 << 20
WEIGHTS_BYTES_MIN: Final = 1_000
WORDS_WHEN_IT_DIES: Final = 2


@dataclass(slots=True)
class Double:
    """The server, and what it has done so far."""

    options: argparse.Namespace
    speed: float
    slots: asyncio.Semaphore
    is_ready: bool = False
    running: int = 0
    waiting: int = 0
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    first_tokens_s: list[float] = field(default_factory=list)

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, one after the other."""
        try:
            while request := await _read(reader):
                method, path, body = request
                await self._answer(method, path, body, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # who asked has gone, or asks nonsense
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if method == "POST" and path in ("/v1/chat/completions", "/v1/completions"):
            await self._complete(json.loads(body), writer, is_chat="chat" in path)
        elif not self.is_ready and path != "/metrics":
            await _send(writer, 503, {"error": {"message": "loading"}})
        elif path == "/v1/models":
            alias = "somebody-else" if self.options.wrong_alias else self.options.alias
            rows = [{"id": each, "object": "model"} for each in (alias, self.options.name)]
            await _send(writer, 200, {"object": "list", "data": rows})
        elif path == "/health":
            await _send(writer, 200, {"status": "ok"})
        elif path == "/metrics":
            await _send(writer, 200, self._metrics())
        else:
            await _send(writer, 404, {"error": {"message": f"no {path}"}})

    async def _complete(
        self, asked: Mapping[str, Any], writer: asyncio.StreamWriter, *, is_chat: bool
    ) -> None:
        if self.options.strict and "ignore_eos" in asked:
            await _send(writer, 422, {"detail": "Unexpected keys in the request: {'ignore_eos'}"})
            return
        self.requests += 1
        is_last = self.requests == self.options.dies_at
        wanted = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 16)
        prompt = _words_of(asked)
        usage = {"prompt_tokens": prompt, "completion_tokens": wanted, "total_tokens": prompt + wanted}
        shown = None if self.options.no_usage else usage
        if asked.get("stream"):
            await _begin(writer)
            asks_usage = (asked.get("stream_options") or {}).get("include_usage")
            async for word in self._words(prompt, wanted, is_last=is_last):
                await _chunk(writer, _event(word, is_chat=is_chat))
            await _chunk(writer, _event(None, is_chat=is_chat))
            if shown and asks_usage:
                await _chunk(writer, {"choices": [], "usage": shown})
            await _end(writer)
        else:
            text = "".join([word async for word in self._words(prompt, wanted, is_last=is_last)])
            content = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
            choice = {"index": 0, "finish_reason": "length", **content}
            answer: dict[str, Any] = {
                "id": "double", "object": "chat.completion", "created": 0, "model": self.options.name,
                "choices": [choice],
            }  # fmt: skip
            await _send(writer, 200, answer | ({"usage": shown} if shown else {}))

    async def _words(self, prompt: int, wanted: int, *, is_last: bool) -> AsyncIterator[str]:
        """Yield the words of an answer as they come: all requests that run share the speed."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        self.waiting += 1
        async with self.slots:
            self.waiting -= 1
            self.running += 1
            self.tokens_in += prompt
            try:
                due_s = loop.time() + prompt / (self.speed * PROMPT_SPEED)
                for number in range(wanted):
                    due_s += self.running / self.speed
                    await asyncio.sleep(max(0.0, due_s - loop.time()))
                    if is_last and number == min(WORDS_WHEN_IT_DIES, wanted - 1):
                        print("double: Segmentation fault (as asked)", flush=True)
                        os._exit(139)
                    if number == 0:
                        self.first_tokens_s.append(loop.time() - begun_s)
                    self.tokens_out += 1
                    yield f" word{number}"
            finally:
                self.running -= 1

    def _metrics(self) -> str:
        """Return the metrics by the names that vLLM has."""
        label = f'{{model_name="{self.options.name}"}}'
        first = self.first_tokens_s
        plain = {
            "num_requests_running": self.running,
            "num_requests_waiting": self.waiting,
            "kv_cache_usage_perc": self.running / self.options.slots,
            "prompt_tokens_total": self.tokens_in,
            "generation_tokens_total": self.tokens_out,
            "request_success_total": len(first),
            "time_to_first_token_seconds_sum": sum(first),
            "time_to_first_token_seconds_count": len(first),
        }
        return "".join(f"vllm:{name}{label} {value}\n" for name, value in plain.items())


def main(argv: Sequence[str]) -> int:
    """Serve until SIGTERM."""
    options = _parser().parse_args(argv)
    given = {name: getattr(options, name) for name in ("slots", "batch", "threads", "cache", "flash")}
    weights = Path(options.model)
    print(f"double: {given}", flush=True)
    if weights.is_file() and weights.stat().st_size < WEIGHTS_BYTES_MIN:
        print(f"gguf_init_from_file: failed to read {weights}: invalid magic", flush=True)
        return 1
    if refused := refusal(given):
        print(refused.words, flush=True)
        return refused.status
    held = b"\1" * (options.holds_mib << 20)  # zeros would be no memory
    speed = options.speed or tokens_per_s(given)
    speed = noisy(speed, options.noise, options.seed or options.alias)
    try:
        asyncio.run(_serve(options, speed))
    except OSError as error:
        print(f"double: {error}", flush=True)  # such as: address already in use
        return 1
    del held
    return 0


async def _serve(options: argparse.Namespace, speed: float) -> None:
    double = Double(options, speed, asyncio.Semaphore(options.slots))
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, (lambda: None) if options.ignores_sigterm else ended.set)
    server = await asyncio.start_server(double.attend, "127.0.0.1", options.port, limit=HEAD_BYTES_MAX)
    await asyncio.sleep(options.ready_after)
    double.is_ready = not options.never_ready
    await ended.wait()
    server.close()


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, bytes] | None:
    """Return method, path and body of the next request, None where there is none."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    size = min(int(fields.get("content-length", 0)), BODY_BYTES_MAX)
    return method, path.partition("?")[0], await reader.readexactly(size)


async def _send(writer: asyncio.StreamWriter, status: int, answer: Mapping[str, Any] | str) -> None:
    is_text = isinstance(answer, str)
    body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
    kind = "text/plain; version=0.0.4" if is_text else "application/json"
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _begin(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, event: Mapping[str, Any] | str) -> None:
    text = event if isinstance(event, str) else json.dumps(event)
    data = f"data: {text}\n\n".encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


async def _end(writer: asyncio.StreamWriter) -> None:
    await _chunk(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def _event(word: str | None, *, is_chat: bool) -> dict[str, Any]:
    """Return the event of a word, or of the end."""
    content: dict[str, Any] = {"text": word or ""}
    if is_chat:
        content = {"delta": {} if word is None else {"content": word}}
    choice = {"index": 0, "finish_reason": "length" if word is None else None, **content}
    return {"id": "double", "object": "chat.completion.chunk", "created": 0, "choices": [choice]}


def _words_of(asked: Mapping[str, Any]) -> int:
    texts = [str(each.get("content", "")) for each in asked.get("messages", ())] or [str(asked.get("prompt"))]
    return sum(len(text.split()) for text in texts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testing.engine_double", description=__doc__)
    for name in ("model", "alias", "name"):
        parser.add_argument(f"--{name}", default="double")
    parser.add_argument("--port", type=int, required=True)
    for name, default in (("slots", 4), ("batch", 256), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--cache", choices=[*CACHES], default="f16")
    parser.add_argument("--flash", action="store_true")
    parser.add_argument("--speed", type=float, default=0.0, help="tokens a second, whatever the parameters")
    parser.add_argument("--noise", type=float, default=0.0, help="deviation of the logarithm of its speed")
    parser.add_argument("--seed", default="", help="of the noise; else each start has its own")
    parser.add_argument("--ready-after", type=float, default=0.0, help="seconds of loading")
    parser.add_argument("--holds-mib", type=int, default=0, help="memory that it has while it serves")
    parser.add_argument("--dies-at", type=int, default=0, help="the request in which it dies")
    for name, says in (
        ("never-ready", "it loads for ever"),
        ("ignores-sigterm", "only SIGKILL ends it"),
        ("no-usage", "it does not count"),
        ("wrong-alias", "it lists the model of somebody else"),
        ("strict", "it refuses fields that OpenAI has not, with 422"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=says)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
