"""Uploads the files of a pipeline to object storage, by URLs that the control plane signs.

Law: a file is registered only after storage has confirmed by its answer to the PUT that it holds exactly the
hashed bytes. The worker has no storage credentials. Nothing is sent while the lease is not trusted, and a
lost lease ends the attempt's uploads. An outage of any length is waited for. Small files that wait together
are signed and registered together; after an error each is uploaded alone. The files of a checkpoint are
uploaded in order, after all earlier files. It is confirmed when ingest has all of them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from typing import Any, BinaryIO, Final, Protocol, TypeVar

import httpx
import msgspec

from events.catalog import ArtifactFailed, ArtifactRegistered
from events.delivery.control_plane_client import ControlPlane, bearer, retry_after_s
from events.delivery.event_encoder import cut
from events.delivery.pipe import Checkpoint, Kept, Made
from events.files.object_sizes import OBJECT_BYTES_MAX, PUT_BYTES_MAX
from events.files.open_beneath import open_plain
from events.files.paths import BadPath, RunPath
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Conflict, LeaseLost, PodfleetError, Rejected, Transient
from events.text.attempt_id import AttemptId
from pod_worker.files.multipart import FROM_BYTES, Parts, Passage, UploadGone, parts_of, pieces
from pod_worker.files.storage import Reply

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 256 * 1024
NAME_MAX: Final = 200
MESSAGE_MAX: Final = 2_000
THREADS: Final = 4
# What goes in one group, and is held in memory: so many files, so many bytes of them all.
GROUP_MAX: Final = 64
GROUP_BYTES_MAX: Final = 4 << 20
FILES_MAX: Final = 100_000  # of an attempt: those that wait are held in memory
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
    """Writes to the attempt's log."""

    def register(self, claim: Claim, facts: Sequence[Fact]) -> int:
        """Store facts, all or none; return the last sequence.

        Raises `Transient`, or `Conflict` after the end.
        """
        ...

    def has_left(self, claim: Claim, sequence: int) -> bool:
        """Say whether ingest has everything up to `sequence`; each call also wakes the sender."""
        ...


class Storage(Protocol):
    """The object storage."""

    def put(
        self, url: str, content: bytes | Iterable[bytes | memoryview], headers: Mapping[str, str]
    ) -> Reply:
        """Send a whole object. Raises `Transient` if storage does not answer."""
        ...


OF_STORAGE: Final = frozenset({"STORAGE_REFUSED", "UPLOAD_GONE"})  # what the file itself does not cause


class FileUnusable(PodfleetError):
    """The file cannot be uploaded: it is no regular file, too large, or has changed."""


class _DroppedError(Exception):
    """The upload was abandoned."""


class _SuspendedError(Exception):
    """The lease is not trusted now: the transfer is interrupted."""


@dataclass(frozen=True, slots=True)
class Content:
    """The size of a file in bytes, and its SHA-256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class NotStored:
    """Why files are not stored; `is_own` where the files themselves are the reason, not the storage."""

    message: str
    is_own: bool = False


@dataclass(slots=True)
class _Batch:
    """The files of one attempt that are being uploaded, and the problems of earlier ones."""

    handed_over: int = 0  # jobs, each of one file or of a checkpoint's
    files: int = 0
    open: set[int] = field(default_factory=set)  # numbers of the jobs that are not done
    problems: list[NotStored] = field(default_factory=list)
    lost: LeaseLost | None = None
    dropped: threading.Event = field(default_factory=threading.Event)
    idle: threading.Event = field(default_factory=threading.Event)


class _Signed(msgspec.Struct, frozen=True):
    """The signed URL of an object."""

    key: str
    url: str
    headers: dict[str, str] = {}


class _SignedMany(msgspec.Struct, frozen=True):
    """The signed URLs of several objects, in the order of the request."""

    files: list[_Signed]


@dataclass(frozen=True, slots=True)
class _Job:
    """Files to upload, in this order; `word` is called when ingest has registered all of them."""

    number: int
    claim: Claim
    files: Sequence[Made]
    batch: _Batch
    word: Callable[[str | None], None] | None = None


@dataclass(slots=True)
class Uploader:
    """Uploads a few files at once; writes the outcome to the attempt's log."""

    control_plane: ControlPlane
    storage: Storage
    registry: Registry
    clock: Clock
    ids: Ids
    failures: Counter[str] = field(default_factory=Counter)  # by code, each try that failed
    _batches: dict[AttemptId, _Batch] = field(default_factory=dict)
    _jobs: deque[_Job] = field(default_factory=deque)
    _threads: int = 0
    _large: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _may_send: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._may_send.set()

    def add(self, claim: Claim, made: Made) -> None:
        """Queue a finished file, which must not be written to any more."""
        self._add(claim, [made], None)

    def add_checkpoint(self, claim: Claim, checkpoint: Checkpoint, answer: Answer) -> None:
        """Queue a checkpoint; `answer` is called when it is safe, or with the reason why it cannot be kept.

        A checkpoint that cannot be kept is no failure of the run.
        """
        self._add(claim, checkpoint.files, lambda problem: answer(Kept(checkpoint.number, problem)))

    def _add(self, claim: Claim, files: Sequence[Made], word: Callable[[str | None], None] | None) -> None:
        with self._lock:
            batch = self._batches.setdefault(claim.attempt_id, _Batch())
            if batch.files + len(files) > FILES_MAX:
                problem = NotStored(f"the attempt made more than {FILES_MAX} files", is_own=True)
                if problem not in batch.problems:
                    batch.problems.append(problem)
                if word is not None:
                    word(problem.message)
                return
            batch.files += len(files)
            batch.handed_over += 1
            batch.open.add(batch.handed_over)
            batch.idle.clear()
            self._jobs.append(_Job(batch.handed_over, claim, files, batch, word))
            if self._threads < THREADS:
                self._threads += 1
                # A daemon, so that a stuck connection does not keep a stopping pod alive.
                threading.Thread(target=self._work, name="upload", daemon=True).start()

    def drain(self, claim: Claim, *, deadline_s: float) -> NotStored | None:
        """Wait until the deadline; return why a file is not kept (yet), None if every file is kept.

        Raises `LeaseLost` if the control plane reported that.
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
                return NotStored(f"{len(batch.open)} files are not uploaded yet")
            self._batches.pop(name, None)
        if not batch.problems:
            return None
        message = "; ".join(each.message for each in batch.problems)
        return NotStored(message, is_own=any(each.is_own for each in batch.problems))

    def has_waiting(self, claim: Claim) -> bool:
        """Say whether a file of the attempt is not uploaded yet, or `drain` has not reported its problem.

        A file that arrives right after `drain` has given up counts too, so that the caller drains again.
        """
        return claim.attempt_id in self._batches

    def suspend(self) -> None:
        """Stop sending, and interrupt transfers."""
        self._may_send.clear()

    def resume(self) -> None:
        """Continue after `suspend`."""
        self._may_send.set()

    def forget(self, claim: Claim) -> None:
        """Abandon the files of an attempt: its lease is lost, or its end does not wait for them."""
        with self._lock:
            batch = self._batches.pop(claim.attempt_id, None)
        if batch is not None:
            batch.dropped.set()

    def close(self) -> None:
        """Stop; files that are not registered yet are lost."""
        with self._lock:
            self._jobs.clear()
            for batch in self._batches.values():
                batch.dropped.set()

    def _work(self) -> None:
        """Process groups of jobs until none is left, then end the thread."""
        while True:
            with self._lock:
                group = self._next_group()
                if not group:
                    self._threads -= 1
                    return
            try:
                for job in self._keep_together(group) if len(group) > 1 else group:
                    self._keep(job)
            except BaseException:
                with self._lock:
                    self._threads -= 1
                raise

    def _next_group(self) -> list[_Job]:
        """Return the next job; if it is a small file, with the small files of its attempt right after it."""
        group: list[_Job] = []
        room = GROUP_BYTES_MAX
        while self._jobs and len(group) < GROUP_MAX:
            size = _size(self._jobs[0])
            if group and (size > room or self._jobs[0].batch is not group[0].batch):
                break
            room -= size
            group.append(self._jobs.popleft())
        return group

    def _keep_together(self, group: Sequence[_Job]) -> list[_Job]:
        """Upload small files together; return those that failed and have to be uploaded one by one."""
        try:
            facts = self._put_all(group)
            if facts:
                self.registry.register(group[0].claim, list(facts.values()))
        except (PodfleetError, OSError, _DroppedError, _SuspendedError) as error:
            log.info("artifacts.one_by_one", extra={"run": group[0].claim.run_id, "why": str(error)})
            return list(group)
        with self._lock:
            for number in facts:
                group[0].batch.open.discard(number)
            if not group[0].batch.open:
                group[0].batch.idle.set()
        return [job for job in group if job.number not in facts]

    def _put_all(self, group: Sequence[_Job]) -> dict[int, Fact]:
        """Upload small files together; return the fact to register for each job, by its number."""
        job = group[0]
        contents = [_content(each.files[0]) for each in group]
        hashes = [hashlib.sha256(content).hexdigest() for content in contents]
        wanted = [
            {"name": each.files[0].name, "size": len(content), "sha256": sha256}
            for each, content, sha256 in zip(group, contents, hashes, strict=True)
        ]
        self._check(job)
        signed = self._ask(job, "presign/many", {"files": wanted}, _SignedMany).files
        facts: dict[int, Fact] = {}
        for each, content, sha256, place in zip(group, contents, hashes, signed, strict=True):
            self._check(job)
            self._send(place, content, len(content))
            facts[each.number] = registered(each.files[0], place.key, Content(len(content), sha256))
        return facts

    def _keep(self, job: _Job) -> None:
        problem: NotStored | None = NotStored(f"{job.files[0].name}: the upload broke off")
        try:
            problem = self._all(job)
            if job.word is not None:
                job.word(None if problem is None else problem.message)
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

    def _all(self, job: _Job) -> NotStored | None:
        """Upload the files of a job in order; stop at the first problem and return it."""
        if job.word is not None:
            self._until(job, lambda: self._is_first(job))
            if job.batch.problems:
                return NotStored("a file before it could not be kept")
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
        """Say whether all jobs that were queued earlier are done."""
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

    def _outcome(self, job: _Job, made: Made) -> tuple[Fact, NotStored | None]:
        """Upload a file; return the fact to register, and the problem if there was one."""
        try:
            return self._upload(job, made), None
        except (FileUnusable, Rejected, UploadGone, OSError) as error:
            code = error.code if isinstance(error, PodfleetError) else "FILE_UNREADABLE"
            self.failures[code] += 1
            name = cut(made.name, NAME_MAX)
            fact = ArtifactFailed(name=name or "unnamed", code=code, message=cut(str(error), MESSAGE_MAX))
            problem = f"{name}: {error}"
            log.warning("artifact.failed", extra={"run": job.claim.run_id, "artifact": name, "why": problem})
            return fact, NotStored(problem, is_own=code not in OF_STORAGE)

    def _upload(self, job: _Job, made: Made) -> ArtifactRegistered:
        checked_name(made.name)
        with open_regular(made.path) as file:
            if os.fstat(file.fileno()).st_size >= FROM_BYTES:
                try:
                    return self._in_parts(job, made, file)
                except Rejected as error:  # as by a control plane that is older than this worker
                    if os.fstat(file.fileno()).st_size > PUT_BYTES_MAX:
                        raise
                    log.warning("artifact.whole", extra={"artifact": made.name, "why": error.message})
                    file.seek(0)
            content = measure(file, partial(self._check_wanted, job))
            key = self._store(job, made, file, content)
        return registered(made, key, content)

    def _in_parts(self, job: _Job, made: Made, file: BufferedReader) -> ArtifactRegistered:
        """Upload a large file in parts, again if storage has discarded them; one file at a time."""
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
        parts = parts_of(before.st_size)

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
        """Run `step`; if it is refused, as with an expired URL, repeat it a few times."""
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
        """Run `step`; repeat it while the other side is unavailable or the lease is not trusted."""
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
        """Wait with full jitter, in addition to the wait that the other side asked for."""
        self.failures[error.code] += 1
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
        raise Rejected("STORAGE_REFUSED", message)

    def _ask(self, job: _Job, action: str, body: dict[str, Any], what: type[T]) -> T:
        path = f"/api/runs/{job.claim.run_id}/artifacts/{action}"
        answer = self.control_plane.send("POST", path, json=body, headers=bearer(job.claim.run_token))
        if answer.status in REFUSED_STATUSES:
            raise Rejected("UPLOAD_REFUSED", f"the control plane answers {answer.status}: {answer.shown()}")
        return answer.read(what, job.claim)


def _size(job: _Job) -> int:
    """Return the bytes of a job in a group; more than the limit if it has to be uploaded alone."""
    if job.word is not None:
        return GROUP_BYTES_MAX + 1
    try:
        return os.lstat(job.files[0].path).st_size
    except OSError:
        return GROUP_BYTES_MAX + 1


def _content(made: Made) -> bytes:
    """Return the bytes of a small file. Raises `OSError`, `FileUnusable`, `Rejected`."""
    checked_name(made.name)
    with open_regular(made.path) as file:
        content = file.read(GROUP_BYTES_MAX + 1)
    if len(content) > GROUP_BYTES_MAX:
        raise FileUnusable("FILE_CHANGED", "the file grew after it was handed over")
    return content


def registered(made: Made, key: str, content: Content) -> ArtifactRegistered:
    """Return the fact that registers an uploaded file."""
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
    """Open a regular file: no link in the whole path, and nothing that blocks the reader.

    The pipeline may put a link anywhere in its folder, and this process may read more than the pipeline.
    Raises `OSError`, or `FileUnusable` for anything that is no file, or too large.
    """
    descriptor = open_plain(path)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size <= OBJECT_BYTES_MAX:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise FileUnusable("NOT_A_FILE", f"{path} is no regular file")
    raise FileUnusable("FILE_TOO_LARGE", f"{path} has {found.st_size} bytes, the limit is {OBJECT_BYTES_MAX}")


def measure(file: BinaryIO, check: Callable[[], None]) -> Content:
    """Return size and hash of an open file, read in pieces; `check` may stop it between two of them."""
    digest, size = hashlib.sha256(), 0
    while piece := file.read(CHUNK_BYTES):
        check()
        digest.update(piece)
        size += len(piece)
    return Content(size, digest.hexdigest())


def same_content(file: BinaryIO, content: Content, check: Callable[[], None]) -> Iterator[bytes]:
    """Yield the pieces of a file from its beginning. Raises `FileUnusable` if it has changed."""
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
    """Read a piece; raise `FileUnusable`, as the sender takes any `OSError` for one of the network."""
    try:
        return file.read(size)
    except OSError as error:
        raise FileUnusable("FILE_UNREADABLE", str(error)) from error
