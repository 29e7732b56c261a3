"""Brings the files that a pipeline made into object storage, by URLs that the control plane signs.

Law: a file is registered only after its bytes lie in storage under a key made of their hash.
The worker holds no storage credentials. A lost lease ends the attempt's uploads for good.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

import httpx

from events.catalog import ArtifactFailed, ArtifactRegistered, Fact
from events.clock import Clock, Ids
from events.errors import LeaseLost, PodfleetError, Rejected, Transient
from events.pipe import Made
from pod_worker.claim import Claim

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 1 << 20
FILE_BYTES_MAX: Final = 5 << 30  # one PUT of S3 holds no more
NAME_MAX: Final = 200
THREADS: Final = 4
TRIES_MAX: Final = 8
BACK_OFF_FIRST_S: Final = 0.2
BACK_OFF_MAX_S: Final = 20.0
PUT_TIMEOUT_S: Final = 300.0

T = TypeVar("T")
Register = Callable[[Claim, Fact], None]


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: its size in bytes and its SHA-256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(slots=True)
class Uploader:
    """Uploads a few files at once; `register` puts the outcome into the attempt's log."""

    control_plane: httpx.Client
    storage: httpx.Client
    register: Register
    clock: Clock
    ids: Ids
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="upload")
    )
    _under_way: dict[tuple[str, int], list[Future[str | None]]] = field(default_factory=dict)
    _may_send: threading.Event = field(default_factory=threading.Event)
    _closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._may_send.set()

    def add(self, claim: Claim, made: Made) -> None:
        """Take a finished file over; nobody may write to it any more."""
        future = self._pool.submit(self._keep, claim, made)
        self._under_way.setdefault((claim.run_id, claim.attempt), []).append(future)

    def drain(self, claim: Claim, *, deadline_s: float) -> str | None:
        """Wait until the deadline; return why a file is not kept (yet), None when every file is."""
        futures = self._under_way.get((claim.run_id, claim.attempt), [])
        patience_s = max(0.0, deadline_s - self.clock.monotonic_s())
        done, waiting = wait(futures, timeout=patience_s, return_when=FIRST_EXCEPTION)
        problems = [problem for future in done if (problem := future.result()) is not None]
        if waiting:
            return f"{len(waiting)} files are not uploaded yet"
        self._under_way.pop((claim.run_id, claim.attempt), None)
        return "; ".join(problems) or None

    def has_waiting(self, claim: Claim) -> bool:
        """Say whether a file of the attempt is still on its way."""
        return any(not each.done() for each in self._under_way.get((claim.run_id, claim.attempt), ()))

    def suspend(self) -> None:
        """Begin no further step of any upload."""
        self._may_send.clear()

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._may_send.set()

    def forget(self, claim: Claim) -> None:
        """Give an attempt's files up: its lease is lost."""
        for future in self._under_way.pop((claim.run_id, claim.attempt), ()):
            future.cancel()

    def close(self) -> None:
        """Stop; what is not registered by now is not kept."""
        self._closed.set()
        self._may_send.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _keep(self, claim: Claim, made: Made) -> str | None:
        try:
            self.register(claim, self._upload(claim, made))
        except LeaseLost:
            raise
        except (PodfleetError, OSError) as error:
            code = error.code if isinstance(error, PodfleetError) else "FILE_UNREADABLE"
            log.warning(
                "artifact.failed", extra={"run": claim.run_id, "artifact": made.name, "why": str(error)}
            )
            name = made.name[:NAME_MAX] or "unnamed"
            self.register(claim, ArtifactFailed(name=name, code=code, message=str(error)))
            return f"{made.name}: {error}"
        return None

    def _upload(self, claim: Claim, made: Made) -> ArtifactRegistered:
        name = checked_name(made.name)
        path = Path(made.path)
        content = measure(path)
        wanted = {
            "name": name,
            "size": content.size,
            "sha256": content.sha256,
            "content_type": made.content_type,
        }
        signed = self._retry(lambda: self._ask(claim, "presign", wanted))
        self._retry(lambda: self._put(path, content, signed))
        self._retry(lambda: self._ask(claim, "complete", {**wanted, "key": signed["key"]}))
        return ArtifactRegistered(
            name=name,
            key=signed["key"],
            size=content.size,
            sha256=content.sha256,
            content_type=made.content_type,
            stage=made.stage,
        )

    def _retry(self, step: Callable[[], T]) -> T:
        """Do `step`, again while the other side cannot; wait meanwhile while we are suspended."""
        failures = 0
        while True:
            self._may_send.wait()
            if self._closed.is_set():
                raise Transient("WORKER_STOPPING", "the worker stopped before the upload was done")
            try:
                return step()
            except Transient:
                failures += 1
                if failures >= TRIES_MAX:
                    raise
            ceiling_s = min(BACK_OFF_MAX_S, BACK_OFF_FIRST_S * 2.0**failures)
            self.clock.wait(self._closed, ceiling_s * self.ids.fraction())

    def _ask(self, claim: Claim, action: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Podfleet-Attempt": str(claim.attempt), "Podfleet-Claim-Token": claim.token}
        try:
            response = self.control_plane.post(
                f"/api/runs/{claim.run_id}/artifacts/{action}", json=body, headers=headers
            )
        except httpx.HTTPError as error:
            raise Transient("CONTROL_PLANE_UNREACHABLE", f"{type(error).__name__}: {error}") from error
        if response.status_code == httpx.codes.CONFLICT:
            raise LeaseLost(claim.run_id, claim.attempt)
        _expect_success(response, "the control plane")
        answer: dict[str, Any] = response.json()
        return answer

    def _put(self, path: Path, content: Content, signed: dict[str, Any]) -> None:
        headers = {**signed.get("headers", {}), "Content-Length": str(content.size)}
        try:
            response = self.storage.put(
                signed["url"], content=_chunks(path), headers=headers, timeout=PUT_TIMEOUT_S
            )
        except httpx.HTTPError as error:
            raise Transient("STORAGE_UNREACHABLE", f"{type(error).__name__}: {error}") from error
        _expect_success(response, "object storage")


def checked_name(name: str) -> str:
    """Return `name` when it is a relative path that stays inside. Raises `Rejected`."""
    parts = PurePosixPath(name).parts
    is_plain = name.isprintable() and "\\" not in name and not name.startswith("/")
    if not name or len(name) > NAME_MAX or not is_plain or ".." in parts or "/".join(parts) != name:
        raise Rejected("BAD_NAME", f"{name!r} is no usable artifact name")
    return name


def measure(path: Path) -> Content:
    """Return size and hash of a file, read in pieces. Raises `OSError`, `Rejected` when it is too large."""
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(path):
        digest.update(chunk)
        size += len(chunk)
    if size > FILE_BYTES_MAX:
        raise Rejected("FILE_TOO_LARGE", f"{path.name} has {size} bytes, the limit is {FILE_BYTES_MAX}")
    return Content(size, digest.hexdigest())


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _expect_success(response: httpx.Response, who: str) -> None:
    if response.is_success:
        return
    message = f"{who} answers {response.status_code}: {response.text[:300]}"
    if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR or response.status_code in (
        401,
        403,
        408,
        429,
    ):
        raise Transient("UPLOAD_DECLINED", message)
    raise Rejected("UPLOAD_REFUSED", message)
