"""A ComfyUI server as its documentation and examples describe it: a queue, a history, files, a WebSocket.

`with ComfyDouble() as double` serves at `double.url`, in a thread of its own. It checks a workflow, executes
one after the other, and keeps what it made, so that the same workflow is answered from its cache. `faults`
name what it does wrong; see `FAULTS`. ComfyUI itself never ran beside it.
"""

from __future__ import annotations

import asyncio
import json
import struct
import threading
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import WSCloseCode, web

FAULTS: Final[Mapping[str, str]] = {
    "flag_only": "it says that a workflow is done, and has no outputs",
    "late_outputs": "its outputs are there a moment after the flag",
    "forgets": "it loses every workflow that it took",
    "never": "a workflow goes on until it is interrupted",
    "no_image": "its output is a web page",
    "cut": "its output is the first half of a picture",
    "wrong_size": "its output is a picture of another size",
    "fewer": "it makes one picture less than was asked for",
    "huge": "it announces an output of 1 GB",
    "endless": "its output never ends",
    "drip": "it sends a byte of its output now and then",
    "traversal": "it names an output outside of its folder",
    "other_folder": "it names an output in its folder of inputs",
    "vanishes": "the checkpoint is gone when the workflow comes",
    "unlisted": "it lists its checkpoints once, and refuses them",
    "node_errors": "it refuses the workflow",
    "oom": "the workflow runs out of memory",
    "arch": "the device is too old for it",
    "interrupted": "somebody stops each workflow",
    "no_socket": "it has no WebSocket",
    "socket_closes": "it closes the WebSocket at once",
    "socket_lies": "it says nonsense there",
    "garbage": "its history is no JSON",
    "deep": "its history is JSON that is nested without end",
    "no_id": "it takes a workflow, and tells no id",
    "errors": "it answers the history with errors of its own",
    "hangs": "it answers the history to nobody",
    "redirects": "it sends who asks for a picture elsewhere",
    "new_list": "it lists its checkpoints as newer servers do",
}
NODE_TYPES: Final = frozenset(
    {"KSampler", "CheckpointLoaderSimple", "EmptyLatentImage", "CLIPTextEncode", "VAEDecode", "SaveImage"}
)
DRIP_S: Final = 0.05
LATE_S: Final = 0.3
WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "oom": (
        "torch.OutOfMemoryError",
        "Allocation on device 0 would exceed allowed memory. CUDA out of memory.",
    ),
    "arch": ("RuntimeError", "CUDA error: no kernel image is available for execution on the device"),
}


def png(width: int, height: int, seed: int) -> bytes:
    """Return a picture of noise."""
    chance = Random(seed)
    rows = b"".join(b"\0" + chance.randbytes(3 * width) for _ in range(height))
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", size), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


@dataclass(slots=True)
class ComfyDouble:
    """The server; what it was asked to do is in its fields."""

    faults: frozenset[str] = frozenset()
    checkpoints: Sequence[str] = ("tiny-sd.safetensors",)
    step_s: float = 0.002
    url: str = ""
    taken: list[dict[str, Any]] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    viewed: list[dict[str, str]] = field(default_factory=list)
    _history: dict[str, Any] = field(default_factory=dict)
    _files: dict[str, bytes] = field(default_factory=dict)
    _pending: list[list[Any]] = field(default_factory=list)
    _running: list[list[Any]] = field(default_factory=list)
    _sockets: dict[str, web.WebSocketResponse] = field(default_factory=dict)
    _has_listed: bool = False
    _cache: set[str] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _end: asyncio.Event = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        assert self.faults <= FAULTS.keys(), self.faults - FAULTS.keys()

    def __enter__(self) -> Self:
        begun: Future[str] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live(begun)), daemon=True)
        self._thread.start()
        self.url = begun.result(10)
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    @property
    def waiting(self) -> int:
        """How many workflows it has to do, or does."""
        return len(self._pending) + len(self._running)

    async def _live(self, begun: Future[str]) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.add_routes(
            [
                web.get("/object_info/{kind}", self._object_info),
                web.get("/system_stats", self._stats),
                web.get("/ws", self._socket),
                web.post("/prompt", self._prompt),
                web.get("/history/{id}", self._history_of),
                web.get("/queue", self._queue),
                web.post("/queue", self._change_queue),
                web.post("/interrupt", self._interrupt),
                web.get("/view", self._view),
            ]
        )
        runner = web.AppRunner(app, shutdown_timeout=0.2)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        worker = asyncio.create_task(self._work())
        begun.set_result(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await self._end.wait()
        worker.cancel()
        await runner.cleanup()

    async def _object_info(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        if kind != "CheckpointLoaderSimple":
            return web.json_response({})
        if "unlisted" in self.faults and self._has_listed:
            return web.Response(status=500)
        self._has_listed = True
        names: list[Any] = [[*self.checkpoints], {"tooltip": "The name of the checkpoint (model) to load."}]
        if "new_list" in self.faults:
            names = ["COMBO", {"options": [*self.checkpoints]}]
        about = {
            "input": {"required": {"ckpt_name": names}},
            "output": ["MODEL", "CLIP", "VAE"],
            "name": kind,
        }
        return web.json_response({kind: about})

    async def _stats(self, _: web.Request) -> web.Response:
        device = {"name": "cpu", "type": "cpu", "index": None, "vram_total": 1 << 34, "vram_free": 1 << 33}
        return web.json_response(
            {"system": {"os": "posix", "comfyui_version": "double"}, "devices": [device]}
        )

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if "no_socket" in self.faults:
            return web.Response(status=404)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        client = request.query.get("clientId", "")
        if "socket_closes" in self.faults:
            await socket.close(code=WSCloseCode.GOING_AWAY)
            return socket
        self._sockets[client] = socket
        about = {"status": {"exec_info": {"queue_remaining": self.waiting}}, "sid": client}
        await socket.send_json({"type": "status", "data": about})
        async for _ in socket:
            pass
        return socket

    async def _tell(self, client: str, kind: str, data: Mapping[str, Any]) -> None:
        socket = self._sockets.get(client)
        if socket is None or socket.closed:
            return
        with suppress(ConnectionError):
            if "socket_lies" in self.faults:
                await socket.send_bytes(b"\0\0\0\1" + b"\xff" * 100)
                await socket.send_str('{"type": "progress", "data": {"value": 1e308, "max": 1e-308}}')
                await socket.send_str('{"type": "progress", "data": ["value"]}')
                await socket.send_str('{"type": ' if kind == "progress" else "[]")
            await socket.send_json({"type": kind, "data": data})

    async def _prompt(self, request: web.Request) -> web.Response:
        asked = await request.json()
        graph, client = asked["prompt"], str(asked.get("client_id", ""))
        names = () if self.faults & {"vanishes", "unlisted"} else self.checkpoints
        errors: dict[str, Any] = {}
        for id, node in graph.items():
            problem: dict[str, Any] | None = None
            if node["class_type"] not in NODE_TYPES or ("node_errors" in self.faults and id == "3"):
                problem = {
                    "type": "return_type_mismatch",
                    "message": "Return type mismatch between linked nodes",
                    "details": "model, received_type(CLIP) mismatch input_type(MODEL)",
                    "extra_info": {"input_name": "model"},
                }
            elif node["class_type"] == "CheckpointLoaderSimple" and node["inputs"]["ckpt_name"] not in names:
                wanted = node["inputs"]["ckpt_name"]
                problem = {
                    "type": "value_not_in_list",
                    "message": "Value not in list",
                    "details": f"ckpt_name: {wanted!r} not in {list(names)}",
                    "extra_info": {"input_name": "ckpt_name", "received_value": wanted},
                }
            if problem:
                errors[id] = {
                    "errors": [problem],
                    "dependent_outputs": ["9"],
                    "class_type": node["class_type"],
                }
        if errors:
            said = {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation"}
            return web.json_response({"error": said, "node_errors": errors}, status=400)
        number = len(self.taken)
        id = f"00000000-0000-4000-8000-{number:012d}"
        self.taken.append(graph)
        if "forgets" not in self.faults:
            self._pending.append([number, id, graph, {"client_id": client}, ["9"]])
        answer = {"prompt_id": id, "number": number, "node_errors": {}}
        return web.json_response({} if "no_id" in self.faults else answer)

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(0.005)
            if self._pending:
                self._running = [self._pending.pop(0)]
                with suppress(Exception):
                    await self._execute(*self._running[0][1:4])
                self._running = []

    async def _execute(self, id: str, graph: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
        client, sampler = extra["client_id"], graph["3"]["inputs"]
        made = json.dumps({name: node for name, node in graph.items() if name != "9"}, sort_keys=True)
        messages: list[Any] = [["execution_start", {"prompt_id": id}]]
        is_cached = made in self._cache
        messages.append(["execution_cached", {"nodes": list("345678") if is_cached else [], "prompt_id": id}])
        await self._tell(client, "execution_start", {"prompt_id": id})
        steps = 0 if is_cached else sampler["steps"]
        for step in range(1, 1 + (10**9 if "never" in self.faults else steps)):
            await asyncio.sleep(self.step_s)
            if id in self.interrupted or "interrupted" in self.faults:
                messages.append(["execution_interrupted", {"prompt_id": id, "node_id": "3"}])
                self._remember(id, graph, messages, {}, is_done=False)
                return
            data = {"value": step, "max": steps, "prompt_id": id, "node": "3"}
            await self._tell(client, "progress", data)
        if words := next((WORDS[each] for each in WORDS if each in self.faults), None):
            error = {"exception_type": words[0], "exception_message": words[1], "node_type": "KSampler"}
            messages.append(["execution_error", {"prompt_id": id, "node_id": "3", **error, "traceback": []}])
            self._remember(id, graph, messages, {}, is_done=False)
            await self._tell(client, "execution_error", {"prompt_id": id, **error})
            return
        self._cache.add(made)
        outputs = {"9": {"images": self._draw(graph, sampler["seed"])}}
        messages.append(["execution_success", {"prompt_id": id}])
        if self.faults & {"flag_only", "late_outputs"}:
            self._remember(id, graph, messages, {}, is_done=True)
            await self._tell(client, "executing", {"node": None, "prompt_id": id})
            await asyncio.sleep(LATE_S)
        if "flag_only" not in self.faults:
            self._remember(id, graph, messages, outputs, is_done=True)
        await self._tell(client, "executing", {"node": None, "prompt_id": id})

    def _draw(self, graph: Mapping[str, Any], seed: int) -> list[dict[str, str]]:
        size = graph["5"]["inputs"]
        wider = 8 if "wrong_size" in self.faults else 0
        found = []
        for index in range(size["batch_size"] - ("fewer" in self.faults)):
            name = f"podfleet_{len(self._files) + 1:05d}_.png"
            data = png(size["width"] + wider, size["height"], seed + index)
            if "no_image" in self.faults:
                data = b"<!doctype html><title>not found</title>"
            self._files[name] = data[: len(data) // 2] if "cut" in self.faults else data
            found.append({"filename": name, "subfolder": "", "type": "output"})
            if "traversal" in self.faults:
                found[-1] |= {"filename": "passwd", "subfolder": "../../etc"}
            if "other_folder" in self.faults:
                found[-1] |= {"type": "input"}
        return found

    def _remember(
        self, id: str, graph: Any, messages: list[Any], outputs: Mapping[str, Any], *, is_done: bool
    ) -> None:
        status = {
            "status_str": "success" if is_done else "error", "completed": is_done, "messages": messages,
        }  # fmt: skip
        self._history[id] = {"prompt": [0, id, graph, {}, ["9"]], "outputs": outputs, "status": status}

    async def _history_of(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        if "garbage" in self.faults:
            return web.Response(text="<html>")
        if "deep" in self.faults:
            return web.Response(text='{"a":' + "[" * 100_000)
        if "errors" in self.faults:
            return web.Response(status=500, text="500: Internal Server Error")
        if "hangs" in self.faults:
            await asyncio.sleep(3_600)
        return web.json_response({id: self._history[id]} if id in self._history else {})

    async def _queue(self, _: web.Request) -> web.Response:
        return web.json_response({"queue_running": self._running, "queue_pending": self._pending})

    async def _change_queue(self, request: web.Request) -> web.Response:
        wanted = (await request.json()).get("delete", [])
        self.deleted += wanted
        self._pending = [each for each in self._pending if each[1] not in wanted]
        return web.Response()

    async def _interrupt(self, request: web.Request) -> web.Response:
        wanted = (await request.json()).get("prompt_id") if request.can_read_body else None
        self.interrupted += [each[1] for each in self._running if wanted in (None, each[1])]
        return web.Response()

    async def _view(self, request: web.Request) -> web.StreamResponse:
        self.viewed.append(dict(request.query))
        data = self._files.get(request.query.get("filename", ""), b"")
        if "redirects" in self.faults:
            return web.Response(status=302, headers={"location": f"{self.url}/system_stats"})
        if not self.faults & {"huge", "endless", "drip"}:
            return web.Response(body=data, content_type="image/png") if data else web.Response(status=404)
        answer = web.StreamResponse()
        if "huge" in self.faults:
            answer.content_length = 1 << 30
        await answer.prepare(request)
        with suppress(ConnectionError):
            while True:
                await answer.write(b"\0" if "drip" in self.faults else bytes(1 << 20))
                await asyncio.sleep(DRIP_S if "drip" in self.faults else 0)
        return answer
