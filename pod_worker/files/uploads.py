"""Brings the files that a pipeline made into object storage, by URLs that the control plane signs.

Law: a file is registered only after exactly the bytes that were hashed lie in storage, which says so by
its answer to the PUT. The worker holds no storage credentials. Nothing is sent while the lease is not
trusted, and a lost lease ends the attempt's uploads for good. An outage is waited for, however long. Small
files that wait together are signed and registered together; after any trouble each goes its own way. A
checkpoint's files go in order, behind everything that was handed over before them, and its word is given
when ingest has them all.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from typing import Any, BinaryIO, Final, Protocol, TypeVar

import httpx
import msgspec

from events.catalog import ArtifactFailed, ArtifactRegistered
from events.delivery.control_plane_client import ControlPlane, bearer, retry_after_s
from events.delivery.outgoing import cut
from events.files.beneath import open_plain
from events.files.paths import BadPath, RunPath
from events.kinds.fact import Fact
from events.pipe import Checkpoint, Kept, Made
from events.queue.claims import Claim
from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Conflict, LeaseLost, PodfleetError, Rejected, Transient
from events.text.attempt_id import AttemptId
from pod_worker.files.parts import FROM_BYTES, PART_BYTES, Parts, Passage, UploadGone, pieces
from pod_worker.files.storage import Reply

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 256 * 1024
FILE_BYTES_MAX: Final = 5 << 30  # one PUT of S3 holds no more
NAME_MAX: Final = 200
MESSAGE_MAX: Final = 2_000
THREADS: Final = 4
# What goes in one haul, and is held in memory: so many files, so many bytes of them all.
HAUL_MAX: Final = 64
HAUL_BYTES_MAX: Final = 4 << 20
REFUSALS_MAX: Final = 5  # a URL may have expired meanwhile; more is no accident
BACK_OFF_FIRST_S: Final = 0.5
BACK_OFF_MAX_S: Final = 60.0
SUSPENDED_TURN_S: Final = 1.0
LEAVING_TURN_S: Final = 0.02
# Of the control plane: no other answer says that this very request can never be right.
REFUSED_STATUSES: Final = frozenset({400, 413, 422})

T = TypeVar("T")
Answer = Callable[[Kept], None]


class Registry(Protocol):
    """The attempt's log."""

    def register(self, claim: Claim, facts: Sequence[Fact]) -> int:
        """Keep facts, all or none; return the last sequence.

        Raises `Transient`, or `Conflict` after the end.
        """
        ...

    def has_left(self, claim: Claim, sequence: int) -> bool:
        """Say whether ingest has everything up to `sequence`; asking makes it hurry."""
        ...


class Storage(Protocol):
    """Where objects are put."""

    def put(
        self, url: str, content: bytes | Iterable[bytes | memoryview], headers: Mapping[str, str]
    ) -> Reply:
        """Send an object whole. Raises `Transient` where nobody answers."""
        ...


class FileUnusable(PodfleetError):
    """The file is not, or no longer, what was handed over."""


class _DroppedError(Exception):
    """Nobody wants this upload any more."""


class _SuspendedError(Exception):
    """The lease is not trusted now: what is half sent is broken off."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: its size in bytes and its SHA-256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(slots=True)
class _Batch:
    """The files of one attempt that are on their way, and what went wrong with those before."""

    handed_over: int = 0
    open: set[int] = field(default_factory=set)  # numbers of the jobs that are not done
    problems: list[str] = field(default_factory=list)
    lost: LeaseLost | None = None
    dropped: threading.Event = field(default_factory=threading.Event)
    idle: threading.Event = field(default_factory=threading.Event)


class _Signed(msgspec.Struct, frozen=True):
    """Where to put an object."""

    key: str
    url: str
    headers: dict[str, str] = {}


class _SignedMany(msgspec.Struct, frozen=True):
    """Where to put several, in the order in which they were asked for."""

    files: list[_Signed]


@dataclass(frozen=True, slots=True)
class _Job:
    """Files on their way, in this order; with a `word` to give when ingest knows of them all."""

    number: int
    claim: Claim
    files: Sequence[Made]
    batch: _Batch
    word: Callable[[str | None], None] | None = None


@dataclass(slots=True)
class Uploader:
    """Uploads a few files at once; the outcome goes into the attempt's log."""

    control_plane: ControlPlane
    storage: Storage
    registry: Registry
    clock: Clock
    ids: Ids
    _batches: dict[AttemptId, _Batch] = field(default_factory=dict)
    _jobs: deque[_Job] = field(default_factory=deque)
    _threads: int = 0
    _large: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _may_send: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._may_send.set()

    def add(self, claim: Claim, made: Made) -> None:
        """Take a finished file over; nobody may write to it any more."""
        self._add(claim, [made], None)

    def add_checkpoint(self, claim: Claim, checkpoint: Checkpoint, answer: Answer) -> None:
        """Take a checkpoint over; `answer` hears when it is safe, or why it never will be.

        A checkpoint that cannot be kept is no failure of the run.
        """
        self._add(claim, checkpoint.files, lambda problem: answer(Kept(checkpoint.number, problem)))

    def _add(self, claim: Claim, files: Sequence[Made], word: Callable[[str | None], None] | None) -> None:
        with self._lock:
            batch = self._batches.setdefault(claim.attempt_id, _Batch())
            batch.handed_over += 1
            batch.open.add(batch.handed_over)
            batch.idle.clear()
            self._jobs.append(_Job(batch.handed_over, claim, files, batch, word))
            if self._threads < THREADS:
                self._threads += 1
                # A daemon, so that a stuck connection does not keep a stopping pod alive.
                threading.Thread(target=self._work, name="upload", daemon=True).start()

    def drain(self, claim: Claim, *, deadline_s: float) -> str | None:
        """Wait until the deadline; return why a file is not kept (yet), None when every file is.

        Raises `LeaseLost` when the control plane said so.
        """
        name = claim.attempt_id
        batch = self._batches.get(name)
        if batch is None:
            return None
        self.clock.wait(batch.idle, max(0.0, deadline_s - self.clock.monotonic_s()))
        if batch.lost is not None:
            raise batch.lost
        with self._lock:
            if batch.open:
                return f"{len(batch.open)} files are not uploaded yet"
            self._batches.pop(name, None)
        return "; ".join(batch.problems) or None

    def has_waiting(self, claim: Claim) -> bool:
        """Say whether `drain` has still to answer for a file of the attempt.

        A file that arrives right after `drain` gave up counts, so that its caller asks again.
        """
        return claim.attempt_id in self._batches

    def suspend(self) -> None:
        """Send nothing more, and break off what is half sent."""
        self._may_send.clear()

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._may_send.set()

    def forget(self, claim: Claim) -> None:
        """Give an attempt's files up: its lease is lost, or its end does not wait for them."""
        with self._lock:
            batch = self._batches.pop(claim.attempt_id, None)
        if batch is not None:
            batch.dropped.set()

    def close(self) -> None:
        """Stop; what is not registered by now is not kept."""
        with self._lock:
            self._jobs.clear()
            for batch in self._batches.values():
                batch.dropped.set()

    def _work(self) -> None:
        """Take haul after haul; a thread ends when there is none, so none waits for ever."""
        while True:
            with self._lock:
                haul = self._next_haul()
                if not haul:
                    self._threads -= 1
                    return
            try:
                for job in self._keep_together(haul) if len(haul) > 1 else haul:
                    self._keep(job)
            except BaseException:
                with self._lock:
                    self._threads -= 1
                raise

    def _next_haul(self) -> list[_Job]:
        """Take the next job, with the small files of the same attempt right behind it if it is one itself."""
        haul: list[_Job] = []
        room = HAUL_BYTES_MAX
        while self._jobs and len(haul) < HAUL_MAX:
            size = _size(self._jobs[0])
            if haul and (size > room or self._jobs[0].batch is not haul[0].batch):
                break
            room -= size
            haul.append(self._jobs.popleft())
        return haul

    def _keep_together(self, haul: Sequence[_Job]) -> list[_Job]:
        """Keep small files in one go; return those that were not, and have to go one by one."""
        try:
            facts = self._put_all(haul)
            if facts:
                self.registry.register(haul[0].claim, list(facts.values()))
        except (PodfleetError, OSError, _DroppedError, _SuspendedError) as error:
            log.info("artifacts.one_by_one", extra={"run": haul[0].claim.run_id, "why": str(error)})
            return list(haul)
        with self._lock:
            for number in facts:
                haul[0].batch.open.discard(number)
            if not haul[0].batch.open:
                haul[0].batch.idle.set()
        return [job for job in haul if job.number not in facts]

    def _put_all(self, haul: Sequence[_Job]) -> dict[int, Fact]:
        """Put what can be put at once; return what to register of each job, by its number."""
        job = haul[0]
        contents = [_content(each.files[0]) for each in haul]
        hashes = [hashlib.sha256(content).hexdigest() for content in contents]
        wanted = [
            {"name": each.files[0].name, "size": len(content), "sha256": sha256}
            for each, content, sha256 in zip(haul, contents, hashes, strict=True)
        ]
        self._check(job)
        signed = self._ask(job, "presign/many", {"files": wanted}, _SignedMany).files
        facts: dict[int, Fact] = {}
        for each, content, sha256, place in zip(haul, contents, hashes, signed, strict=True):
            self._check(job)
            self._send(place, content, len(content))
            facts[each.number] = registered(each.files[0], place.key, Content(len(content), sha256))
        return facts

    def _keep(self, job: _Job) -> None:
        problem: str | None = f"{job.files[0].name}: the upload broke off"
        try:
            problem = self._all(job)
            if job.word is not None:
                job.word(problem)
                problem = None
        except LeaseLost as lost:
            problem = None
            job.batch.lost = lost
            job.batch.dropped.set()
        except _DroppedError:
            problem = None
        finally:
            with self._lock:
                if problem is not None:
                    job.batch.problems.append(problem)
                job.batch.open.discard(job.number)
                if not job.batch.open or job.batch.lost is not None:
                    job.batch.idle.set()

    def _all(self, job: _Job) -> str | None:
        """Bring every file of the job to its end; return the first problem, behind which nothing is done."""
        if job.word is not None:
            self._until(job, lambda: self._is_first(job))
            if job.batch.problems:
                return "a file before it could not be kept"
        sequence = 0
        for made in job.files:
            fact, problem = self._outcome(job, made)
            sequence = self._register(job, fact)
            if problem is not None:
                return problem
        if job.word is not None:
            self._until(job, lambda: self.registry.has_left(job.claim, sequence))
        return None

    def _is_first(self, job: _Job) -> bool:
        """Say whether everything that was handed over earlier is done."""
        with self._lock:
            return min(job.batch.open) == job.number

    def _until(self, job: _Job, condition: Callable[[], bool]) -> None:
        while not condition():
            self._check_wanted(job)
            self.clock.wait(job.batch.dropped, LEAVING_TURN_S)

    def _register(self, job: _Job, fact: Fact) -> int:
        try:
            return self._patiently(job, partial(self.registry.register, job.claim, [fact]))
        except Conflict as error:
            raise _DroppedError from error  # the attempt ended without waiting for this file

    def _outcome(self, job: _Job, made: Made) -> tuple[Fact, str | None]:
        """Upload a file; return what to register of it, and what went wrong."""
        try:
            return self._upload(job, made), None
        except (FileUnusable, Rejected, UploadGone, OSError) as error:
            code = error.code if isinstance(error, PodfleetError) else "FILE_UNREADABLE"
            name = cut(made.name, NAME_MAX)
            fact = ArtifactFailed(name=name or "unnamed", code=code, message=cut(str(error), MESSAGE_MAX))
            problem = f"{name}: {error}"
            log.warning("artifact.failed", extra={"run": job.claim.run_id, "artifact": name, "why": problem})
            return fact, problem

    def _upload(self, job: _Job, made: Made) -> ArtifactRegistered:
        checked_name(made.name)
        with open_regular(made.path) as file:
            if os.fstat(file.fileno()).st_size >= FROM_BYTES:
                try:
                    return self._in_parts(job, made, file)
                except Rejected as error:  # as by a control plane that is older than this worker
                    log.warning("artifact.whole", extra={"artifact": made.name, "why": error.message})
                    file.seek(0)
            content = measure(file, partial(self._check_wanted, job))
            key = self._store(job, made, file, content)
        return registered(made, key, content)

    def _in_parts(self, job: _Job, made: Made, file: BufferedReader) -> ArtifactRegistered:
        """Send a large file, anew where storage forgot what it had of it; one at a time, for the memory."""
        with self._large:
            return self._through_refusals(job, partial(self._once, job, made, file), UploadGone)

    def _once(self, job: _Job, made: Made, file: BufferedReader) -> ArtifactRegistered:
        file.seek(0)
        before = os.fstat(file.fileno())
        described = {
            "name": made.name,
            "size": before.st_size,
            "content_type": made.content_type,
            "upload": self.ids.ulid(),
        }
        parts = -(-before.st_size // PART_BYTES)

        def put(url: str, content: memoryview) -> None:
            check = partial(self._check, job)
            self._send(_Signed("", url), pieces(content, CHUNK_BYTES, check), len(content))

        passage = Passage(
            file,
            ask=lambda: self._ask(job, "presign", {**described, "parts": parts}, Parts),
            put=put,
            patiently=partial(self._through_refusals, job),
        )
        content = Content(before.st_size, passage.send())
        after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise FileUnusable("FILE_CHANGED", "the file was written to after it was handed over")
        whole = {**described, "key": passage.key, "sha256": content.sha256}
        try:
            self._patiently(job, partial(self._ask, job, "complete", whole, dict[str, Any]))
        except Rejected as error:
            raise UploadGone() from error
        return registered(made, passage.key, content)

    def _store(self, job: _Job, made: Made, file: BinaryIO, content: Content) -> str:
        """Sign and put; return the key."""
        presign = {
            "name": made.name,
            "size": content.size,
            "sha256": content.sha256,
            "content_type": made.content_type,
        }
        return self._through_refusals(job, partial(self._put, job, presign, file, content))

    def _through_refusals(
        self, job: _Job, step: Callable[[], T], refusal: type[PodfleetError] = Rejected
    ) -> T:
        """Do `step`, and a few times anew where it is refused, as for a URL that expired."""
        refusals = 0
        while True:
            try:
                return self._patiently(job, step)
            except refusal as error:
                refusals += 1
                if refusals >= REFUSALS_MAX:
                    raise
                self._back_off(job, refusals, error)

    def _patiently(self, job: _Job, step: Callable[[], T]) -> T:
        """Do `step`, and again while the other side cannot, or while the lease is not trusted."""
        failures = 0
        while True:
            try:
                self._check(job)
                return step()
            except _SuspendedError:
                self.clock.wait(self._may_send, SUSPENDED_TURN_S)
            except Transient as error:
                failures += 1
                self._back_off(job, failures, error)

    def _check_wanted(self, job: _Job) -> None:
        if job.batch.dropped.is_set():
            raise _DroppedError

    def _check(self, job: _Job) -> None:
        self._check_wanted(job)
        if not self._may_send.is_set():
            raise _SuspendedError

    def _back_off(self, job: _Job, failures: int, error: PodfleetError) -> None:
        """Wait with full jitter, on top of what the other side asked for."""
        asked_s = error.retry_after_s or 0.0 if isinstance(error, Transient) else 0.0
        wait_s = asked_s + back_off_s(
            failures, first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S, share=self.ids.fraction()
        )
        log.warning(
            "artifact.retried",
            extra={
                "run": job.claim.run_id,
                "artifact": job.files[0].name,
                "code": error.code,
                "why": error.message,
            },
        )
        self.clock.wait(job.batch.dropped, wait_s)

    def _put(self, job: _Job, presign: dict[str, Any], file: BinaryIO, content: Content) -> str:
        """Put the file to a URL signed for this try, as an older one may have expired; return its key."""
        signed = self._ask(job, "presign", presign, _Signed)
        self._send(signed, same_content(file, content, partial(self._check, job)), content.size)
        return signed.key

    def _send(self, place: _Signed, content: bytes | Iterator[bytes | memoryview], size: int) -> None:
        response = self.storage.put(place.url, content, {**place.headers, "Content-Length": str(size)})
        # Named by its digest and signed for it: what lies there already is what was to be put.
        if 200 <= response.status < 300 or response.status == httpx.codes.PRECONDITION_FAILED:
            return
        message = f"object storage answers {response.status}: {response.text}"
        if response.status >= 500 or response.status in (408, 429):
            asked_s = retry_after_s(response.retry_after, self.clock.now())
            raise Transient("storage_unavailable", message, retry_after_s=asked_s)
        raise Rejected("UPLOAD_REFUSED", message)

    def _ask(self, job: _Job, action: str, body: dict[str, Any], what: type[T]) -> T:
        path = f"/api/runs/{job.claim.run_id}/artifacts/{action}"
        answer = self.control_plane.send("POST", path, json=body, headers=bearer(job.claim.run_token))
        if answer.status in REFUSED_STATUSES:
            raise Rejected("UPLOAD_REFUSED", f"the control plane answers {answer.status}: {answer.shown()}")
        return answer.read(what, job.claim)


def _size(job: _Job) -> int:
    """Return the bytes that a job would take in a haul; more than there is room for, if it goes alone."""
    if job.word is not None:
        return HAUL_BYTES_MAX + 1
    try:
        return os.lstat(job.files[0].path).st_size
    except OSError:
        return HAUL_BYTES_MAX + 1


def _content(made: Made) -> bytes:
    """Return the bytes of a small file. Raises `OSError`, `FileUnusable`, `Rejected`."""
    checked_name(made.name)
    with open_regular(made.path) as file:
        content = file.read(HAUL_BYTES_MAX + 1)
    if len(content) > HAUL_BYTES_MAX:
        raise FileUnusable("FILE_CHANGED", "the file grew after it was handed over")
    return content


def registered(made: Made, key: str, content: Content) -> ArtifactRegistered:
    """Return what is said of a file that lies in storage."""
    return ArtifactRegistered(
        name=made.name,
        key=key,
        size=content.size,
        sha256=content.sha256,
        content_type=made.content_type,
        stage=made.stage,
    )


def checked_name(name: str) -> str:
    """Return `name` when it is a relative path that stays inside. Raises `Rejected`."""
    try:
        path = RunPath(name)
    except BadPath as error:
        raise Rejected("BAD_NAME", f"no usable artifact name: {error}") from error
    if len(path) > NAME_MAX:
        raise Rejected("BAD_NAME", f"no usable artifact name: it has more than {NAME_MAX} characters")
    return name


def open_regular(path: str) -> BufferedReader:
    """Open a file that is one: no link on the whole way, and nothing that blocks the reader.

    The pipeline may put a link anywhere in its folder, and we may read what it may not.
    Raises `OSError`, or `FileUnusable` for anything that is no file, or too large.
    """
    descriptor = open_plain(path)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size <= FILE_BYTES_MAX:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise FileUnusable("NOT_A_FILE", f"{path} is no regular file")
    raise FileUnusable("FILE_TOO_LARGE", f"{path} has {found.st_size} bytes, the limit is {FILE_BYTES_MAX}")


def measure(file: BinaryIO, check: Callable[[], None]) -> Content:
    """Return size and hash of an open file, read in pieces; `check` may break off between them."""
    digest, size = hashlib.sha256(), 0
    while piece := file.read(CHUNK_BYTES):
        check()
        digest.update(piece)
        size += len(piece)
    return Content(size, digest.hexdigest())


def same_content(file: BinaryIO, content: Content, check: Callable[[], None]) -> Iterator[bytes]:
    """Yield the pieces of a file from its beginning. Raises `FileUnusable` when it has changed."""
    digest, left = hashlib.sha256(), content.size
    file.seek(0)
    while left and (piece := _read(file, min(left, CHUNK_BYTES))):
        check()
        digest.update(piece)
        left -= len(piece)
        if not left and (digest.hexdigest() != content.sha256 or _read(file, 1)):
            break  # before the last piece, so that no storage takes the object for whole
        yield piece
    else:
        if not left:
            return
    raise FileUnusable("FILE_CHANGED", "the file was written to after it was handed over")


def _read(file: BinaryIO, size: int) -> bytes:
    """Read a piece; who sends it takes any `OSError` for the network's."""
    try:
        return file.read(size)
    except OSError as error:
        raise FileUnusable("FILE_UNREADABLE", str(error)) from error
