"""Pictures of a ComfyUI server of the pod: a workflow is posted, and its history asked until they are there.

Law: what the server says is hostile: bounds of bytes and time, no redirect, no proxy. Its flag that a
workflow is done is no picture; the files are. Whatever ends a lap early takes its workflow out of the queue.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import msgspec

from events.kinds.image import ImageSpec
from events.models.advice import advice_on
from events.runtime.clock import Clock
from events.runtime.errors import PipelineError
from stages.adapters.time_limit import run_within
from stages.kinds.image.answers import (
    BadAnswer,
    Outcome,
    Reference,
    at,
    checkpoints,
    decoded,
    outcome,
    prompt_id,
    queued,
    refusal,
    said,
    shown_names,
)
from stages.kinds.image.backend import Drawn, Lap, Progress, check_pictures, late, picture_bytes_max
from stages.kinds.image.workflow import LOADER, workflow
from stages.ports import Say

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024  # a description or a history; the graph stands in it
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024  # previews come by the WebSocket, and are dropped
REQUEST_S: Final = 15.0
VIEW_S: Final = 120.0  # for all pictures of a lap
PREPARE_S: Final = 60.0
WITHDRAW_S: Final = 4.0
WITHDRAWALS_MAX: Final = 3
POLL_S: Final = 0.1
POLL_BESIDE_S: Final = 1.0  # where the WebSocket says that there is something to look at
SILENT_S: Final = 60.0  # a server that computes may answer nobody for a while
EMPTY_S: Final = 10.0  # between the flag and the pictures
LOST_LOOKS: Final = 3
NEVER: Final = threading.Event()
NETWORK: Final = (aiohttp.ClientError, TimeoutError, OSError)


class _Silent(Exception):
    """The server did not answer, or with an error of its own."""


@dataclass(frozen=True, slots=True)
class ComfyUI:
    """A server at an address; `client` names this attempt among those that it serves."""

    url: str
    spec: ImageSpec
    client: str
    clock: Clock
    say: Say
    poll_s: float = POLL_S
    poll_beside_s: float = POLL_BESIDE_S
    empty_s: float = EMPTY_S
    silent_s: float = SILENT_S
    view_s: float = VIEW_S

    def prepare(self) -> str:
        """Look for the checkpoint. Raises `PipelineError`."""
        try:
            return run_within(PREPARE_S, self._prepared, NEVER)
        except BadAnswer as error:
            raise _nonsense(error) from error
        except _Silent as error:
            raise self._unreachable(error) from error

    def draw(self, lap: Lap, progress: Progress) -> Drawn:
        """Make the pictures of a lap. Raises `PipelineError`."""
        longest_s = self.spec.limit_s + self.view_s + REQUEST_S
        try:
            return run_within(longest_s, lambda: self._drawn(lap, progress), NEVER)
        except TimeoutError:
            self._withdraw()
            raise late(self.spec) from None
        except BadAnswer as error:
            self._withdraw()
            raise _nonsense(error) from error
        except _Silent as error:
            self._withdraw()
            raise self._unreachable(error) from error
        except BaseException:  # also where the run is to stop
            self._withdraw()
            raise

    def _withdraw(self) -> None:
        """Take what this attempt has there out of the queue; a server that does not answer keeps it."""
        try:
            run_within(WITHDRAW_S, self._withdrawn, NEVER)
        except (BadAnswer, _Silent, TimeoutError) as error:
            self.say(f"the workflow may still run on the server: {said(str(error)) or 'it did not answer'}")

    async def _prepared(self) -> str:
        async with self._connected() as server:
            names = checkpoints(await server.json("GET", f"/object_info/{LOADER}"))
            stats = await server.json("GET", "/system_stats")
            if self.spec.model not in names:
                raise _missing(self.spec.model, names)
        version = said(at(stats, "system", "comfyui_version") or "?")[:40]
        devices = at(stats, "devices")
        first = devices[0] if isinstance(devices, list) and devices else None
        return f"ComfyUI {version} on {said(at(first, 'name') or 'an unnamed device')[:100]}"

    async def _drawn(self, lap: Lap, progress: Progress) -> Drawn:
        async with self._connected() as server:
            listener = _Listener(progress)
            listening = asyncio.create_task(listener.listen(server, self.client))
            try:
                async with asyncio.timeout(self.spec.limit_s):
                    await listener.is_open_or_not.wait()
                    begun_s = self.clock.monotonic_s()
                    id = await self._posted(server, lap)
                    found = await self._finished(server, id, listener)
                wall_s = self.clock.monotonic_s() - begun_s
            except TimeoutError:
                raise late(self.spec) from None
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
            bytes_max = picture_bytes_max(self.spec)
            try:
                async with asyncio.timeout(self.view_s):
                    pictures = [
                        await server.picture(each, bytes_max)
                        for each in found.pictures[: self.spec.batch + 1]
                    ]
            except (_Silent, TimeoutError) as error:
                words = said(str(error)) or f"it took more than {self.view_s:g} s"
                raise PipelineError("IMAGE_FAILED", f"a picture could not be fetched: {words}") from error
        check_pictures(self.spec, pictures)
        return Drawn(pictures, wall_s, found.is_cached)

    async def _posted(self, server: _Server, lap: Lap) -> str:
        body = {"prompt": workflow(self.spec, lap), "client_id": self.client}
        status, answer = await server.asked("POST", "/prompt", body)
        if status == 200:
            return prompt_id(answer)
        words, is_name = refusal(answer)
        if is_name:
            names = checkpoints(await server.json("GET", f"/object_info/{LOADER}"))
            raise _missing(self.spec.model, names)
        raise PipelineError("IMAGE_REFUSED", f"the server did not take the workflow ({status}): {words}")

    async def _finished(self, server: _Server, id: str, listener: _Listener) -> Outcome:
        """Ask until the pictures are there, or never will be."""
        heard_s = self.clock.monotonic_s()
        done_s: float | None = None
        missed = 0
        while True:
            now_s = self.clock.monotonic_s()
            try:
                found = outcome(await server.json("GET", f"/history/{id}"), id)
                missed = missed + 1 if found is None and not await self._is_queued(server, id) else 0
                heard_s = now_s
            except _Silent:
                if now_s - heard_s > self.silent_s:
                    raise
                found = None
            if found is not None and found.error:
                raise _failed(found)
            if found is not None and len(found.pictures) >= self.spec.batch:
                return found
            if missed >= LOST_LOOKS:
                raise PipelineError(
                    "IMAGE_FAILED", "the server has forgotten the workflow: was it restarted?", retryable=True
                )
            if found is not None and found.is_done:
                done_s = now_s if done_s is None else done_s
                if now_s - done_s > self.empty_s:
                    words = f"the server says that it is done, and has {len(found.pictures)} pictures"
                    raise PipelineError("IMAGE_FAILED", f"{words}, not {self.spec.batch}")
            is_told = listener.is_open and done_s is None
            await listener.wait(self.poll_beside_s if is_told else self.poll_s)

    async def _is_queued(self, server: _Server, id: str) -> bool:
        running, waiting = queued(await server.json("GET", "/queue"), self.client)
        return id in running or id in waiting

    async def _withdrawn(self) -> None:
        async with self._connected() as server:
            for _ in range(WITHDRAWALS_MAX):  # what waited may have begun meanwhile
                running, waiting = queued(await server.json("GET", "/queue"), self.client)
                if waiting:
                    await server.asked("POST", "/queue", {"delete": list(waiting)})
                for each in running[:1]:
                    # older servers read no id, and stop what runs: that is ours
                    await server.asked("POST", "/interrupt", {"prompt_id": each})
                if not waiting:
                    return

    def _connected(self) -> _Server:
        return _Server(self.url)

    def _unreachable(self, error: Exception) -> PipelineError:
        words = f"the ComfyUI server of this pod does not answer at {self.url}: {said(str(error))}"
        return PipelineError("IMAGE_UNREACHABLE", words, retryable=True)


@dataclass(slots=True)
class _Server:
    """One connection's worth of requests; each is bounded."""

    url: str
    session: aiohttp.ClientSession = field(init=False)

    async def __aenter__(self) -> _Server:
        self.session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=REQUEST_S),
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def json(self, method: str, path: str) -> Any:
        """Return an answer with the status 200. Raises `_Silent`, `PipelineError` for one that is no JSON."""
        status, answer = await self.asked(method, path)
        if status != 200:
            raise _Silent(f"{path.split('/')[1]} was answered with {status}: {said(answer)}")
        return answer

    async def asked(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; of an error, whatever it says."""
        sent = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"} if sent else {}
        try:
            async with self.session.request(
                method, self.url + path, data=sent, headers=headers, allow_redirects=False
            ) as response:
                status, data = response.status, await _whole(response, ANSWER_BYTES_MAX)
        except NETWORK as error:
            raise _Silent(said(str(error)) or type(error).__name__) from error
        try:
            return status, decoded(data) if data else None
        except BadAnswer:
            if status == 200:
                raise
            return status, said(data[:2_000].decode(errors="replace"))

    async def picture(self, wanted: Reference, bytes_max: int) -> bytes:
        """Return a picture's file, within bounds. Raises `_Silent`, `BadAnswer`."""
        query = {"filename": wanted.filename, "subfolder": wanted.subfolder, "type": wanted.type}
        try:
            async with self.session.get(
                f"{self.url}/view",
                params=query,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=VIEW_S),
            ) as response:
                if response.status != 200:
                    raise _Silent(f"it was answered with {response.status}")
                return await _whole(response, bytes_max)
        except NETWORK as error:
            raise _Silent(said(str(error)) or type(error).__name__) from error


async def _whole(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """Return a body. Raises `BadAnswer` for one that is longer, or says that it will be."""
    if (response.content_length or 0) > bytes_max:
        raise BadAnswer(f"an answer of {response.content_length:,} bytes; {bytes_max:,} are taken")
    data = bytearray()
    async for part in response.content.iter_any():
        data += part
        if len(data) > bytes_max:
            raise BadAnswer(f"an answer of more than {bytes_max:,} bytes")
    return bytes(data)


@dataclass(slots=True)
class _Listener:
    """Hears what the server says of its work, as long as it does; nothing is believed but progress."""

    progress: Progress
    is_open_or_not: asyncio.Event = field(default_factory=asyncio.Event)
    is_open: bool = False
    something: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, server: _Server, client: str) -> None:
        """Listen until the connection ends, in whatever way."""
        try:
            async with asyncio.timeout(REQUEST_S):
                socket = await server.session.ws_connect(
                    f"{server.url}/ws?clientId={client}", max_msg_size=MESSAGE_BYTES_MAX, timeout=_CLOSING
                )
            self.is_open = True
            self.is_open_or_not.set()
            async with socket:
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT:
                        self.hear(message.data)
        except (*NETWORK, BadAnswer):
            pass  # the history says everything, only later
        finally:
            self.is_open = False
            self.is_open_or_not.set()
            self.something.set()

    def hear(self, text: str) -> None:
        """Take one message. Raises `BadAnswer`."""
        message = decoded(text.encode(errors="replace"))
        kind, data = at(message, "type"), at(message, "data")
        if kind == "progress":
            done, whole = at(data, "value"), at(data, "max")
            if isinstance(done, int | float) and isinstance(whole, int | float) and whole > 0:
                share = done / whole
                if math.isfinite(share):
                    self.progress(min(1.0, max(0.0, share)))
        elif kind in ("execution_error", "execution_success", "execution_interrupted") or (
            kind == "executing" and at(data, "node") is None
        ):
            self.something.set()

    async def wait(self, seconds: float) -> None:
        """Wait until it is time to look again; sooner where something was said."""
        try:
            async with asyncio.timeout(seconds):
                await self.something.wait()
        except TimeoutError:
            return
        self.something.clear()
        await asyncio.sleep(0.01)  # what says much makes nobody spin


_CLOSING: Final = aiohttp.ClientWSTimeout(ws_close=1.0)


def _nonsense(error: BadAnswer) -> PipelineError:
    return PipelineError("IMAGE_FAILED", f"the server answered what it may not: {error}")


def _missing(model: str, names: Any) -> PipelineError:
    return PipelineError(
        "MISSING_CHECKPOINT",
        f"the server has no checkpoint {said(model)!r}; it has {shown_names(names)}. Put it into the folder "
        "models/checkpoints of ComfyUI, or name one of these",
    )


def _failed(found: Outcome) -> PipelineError:
    """Return the failure of a workflow, by the words of the server."""
    if found.is_interrupted:
        return PipelineError("IMAGE_FAILED", "somebody stopped the workflow on the server", retryable=True)
    advice = advice_on(found.error)
    code = {"OUT_OF_MEMORY": "OUT_OF_MEMORY", "KERNEL_IMAGE": "CUDA_UNSUPPORTED_ARCH"}.get(
        advice.code if advice else "", "IMAGE_FAILED"
    )
    return PipelineError(code, f"the workflow failed on the server: {found.error}")
