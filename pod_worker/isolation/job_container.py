"""The program of a job in a container of its image: the worker alone speaks to the container runtime.

Law: a run has no access to the runtime. It says which program it wants; what the container may be is decided
here, by the run's specification and the pod. No container outlives its attempt: a guard removes it that reads
a pipe, which ends with the worker, and what is left nevertheless is found by its label at the next start.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from events.delivery.pipe import ContainerOrder, ContainerStop, ContainerTold, ContainerWanted
from events.models.containers import (
    Inspected,
    inspecting_words,
    listing_words,
    read_inspected,
    removing_words,
    stopping_words,
)
from events.models.job_containers import (
    PRINTED,
    Image,
    JobContainer,
    image_words,
    is_image,
    pull_failure,
    pulling_words,
    read_image,
    variables_file,
)
from events.runtime.clock import Clock
from events.runtime.loops import Threads
from pod_worker.isolation.task_limit import NUMBERED, tasks_max

log = logging.getLogger(__name__)

ORDER: Final = "container.order"
ORDER_BYTES_MAX: Final = 8 << 20
ANSWER_BYTES_MAX: Final = 4 << 20
CALL_S: Final = 60.0
PULL_S: Final = 1_800.0
LOOK_S: Final = 0.05
CLOSE_S: Final = 90.0
MEMORY_PART: Final = 0.95
NOBODY: Final = 0  # whoever is root gets no container
# The shell becomes the client, once the guard waits for the end of the worker.
GUARDED: Final = (
    'exec 3<&0 </dev/null; client=$1 name=$2; shift 2; trap "" TERM INT HUP; '
    '{ read -r _ <&3; exec 3<&-; timeout 60 "$client" rm --force --volumes "$name"; } >/dev/null 2>&1 & '
    'trap - TERM INT HUP; exec 3<&-; exec "$@"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContainers:
    """The container runtime of a pod: its client, and the devices and labels of what a slot runs."""

    client: str
    pod: str
    slot: str
    environ: Mapping[str, str] = field(repr=False, default_factory=dict)
    devices: Sequence[str] | None = None
    memory_bytes: int | None = None

    def call(self, words: Sequence[str], limit_s: float = CALL_S) -> tuple[int, bytes]:
        """Run the client; return its status, and the beginning of what it says."""
        with tempfile.TemporaryFile() as answer:
            try:
                code = subprocess.run(
                    words, stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.STDOUT,
                    timeout=limit_s, env=dict(self.environ), check=False,
                ).returncode  # fmt: skip
            except (subprocess.TimeoutExpired, OSError) as error:
                return -1, str(error).encode()
            answer.seek(0)
            return code, answer.read(ANSWER_BYTES_MAX)


class _FailedError(Exception):
    """The program does not run; `code` says whose fault that is."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _OverError(Exception):
    """The attempt ends."""


@dataclass(slots=True, kw_only=True)
class ContainerUse:
    """The container of one attempt, from the wish of its process to the end of the attempt.

    `trees` are the file trees that the run reads. None as `pod`: it has no container runtime.
    """

    pod: PodContainers | None
    spec: Mapping[str, Any]
    workspace: Path
    name: str
    threads: Threads
    clock: Clock
    answer: Callable[[ContainerTold], None]
    trees: Callable[[], Mapping[str, str]] = dict
    is_asked: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _gone: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _is_paused: bool = False
    _stands_still: bool = False

    def hear(self, frame: ContainerWanted | ContainerStop) -> None:
        """Take a wish of the process; the answer follows from another thread."""
        if isinstance(frame, ContainerStop):
            if self.is_asked:
                self.threads("container-stop", lambda: self._stop(frame.grace_s))
            return
        if self.is_asked or self._over.is_set():
            return
        self.is_asked = True
        if self.pod is None:
            self._gone.set()
            why = "the pod runs no containers: its operator has to allow that by PODFLEET_CONTAINERS"
            self.answer(ContainerTold("ended", code="NOT_AVAILABLE", problem=why))
            return
        pod = self.pod
        self.threads("container", lambda: self._run(pod))

    def pause(self, is_so: bool) -> None:
        """Have the program stand still, or go on."""
        if self.is_asked and self.pod is not None and is_so != self._is_paused:
            self._is_paused = is_so
            self.threads("container-pause", self._pause)

    def close(self) -> None:
        """End the container, and return when it is gone, or cannot be removed for now."""
        self._over.set()
        if self.is_asked and not self.clock.wait(self._gone, CLOSE_S):
            log.error("container.remains", extra={"container": self.name})

    def _has_to_stop(self) -> bool:
        return self._is_paused and not self._stands_still

    def _pause(self) -> None:
        assert self.pod is not None
        with self._turn:
            if not self._gone.is_set():
                is_so = self._is_paused
                code, _ = self.pod.call([self.pod.client, "pause" if is_so else "unpause", self.name])
                self._stands_still = is_so and (code == 0 or self._stands_still)

    def _stop(self, grace_s: float) -> None:
        if self.pod is not None and not self._gone.is_set():
            self.pod.call(stopping_words(self.name, grace_s, self.pod.client), CALL_S + grace_s)

    def _run(self, pod: PodContainers) -> None:
        try:
            told = self._ended(pod)
        except _FailedError as error:
            told = ContainerTold("ended", code=error.code, problem=str(error))
        except _OverError:
            told = None
        except OSError as error:
            why = f"the program cannot be run in a container: {error}"
            code = "CONFIG" if error.errno == errno.E2BIG else "NOT_AVAILABLE"
            told = ContainerTold("ended", code=code, problem=why)
        finally:
            self._remove(pod)
        if told is not None:
            self.answer(told)

    def _ended(self, pod: PodContainers) -> ContainerTold:
        """Run the program to its end."""
        folder = os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            user = os.fstat(folder).st_uid
            if user == NOBODY:
                why = (
                    "a program in a container gets the user of its run, and runs have none of their own here"
                )
                raise _FailedError("NOT_AVAILABLE", f"{why}: see why in the log of the worker")
            order = _read_order(folder)
            image = self._image(pod, str(self.spec.get("image", "")))
            container = JobContainer(
                name=self.name,
                pod=pod.pod,
                slot=pod.slot,
                image=image.identity,
                user=user,
                folder=order.folder,
                variables="",
                writable=[str(self.workspace)],
                read_only=[*dict.fromkeys(self.trees().values())],
                devices=pod.devices,
                tasks_max=tasks_max(NUMBERED),
                memory_bytes=pod.memory_bytes,
            )
            printed = _open_printed(folder)
        finally:
            os.close(folder)
        try:
            variables = variables_file(order.variables)
        except ValueError as error:
            os.close(printed)
            raise _FailedError("CONFIG", f"env: {error}") from error
        return self._wait(pod, container, order.words, variables, printed, image)

    def _wait(
        self,
        pod: PodContainers,
        container: JobContainer,
        command: Sequence[str],
        variables: bytes,
        printed: int,
        image: Image,
    ) -> ContainerTold:
        while self._has_to_stop():
            if self.clock.wait(self._over, LOOK_S):
                os.close(printed)
                raise _OverError
        secret = os.memfd_create("variables")  # no disk has the secrets of a run
        try:
            os.write(secret, variables)
            place = f"/proc/self/fd/{secret}"
            words = replace(container, variables=place).words(pod.client, command)
            client = subprocess.Popen(
                ["/bin/sh", "-c", GUARDED, "container", pod.client, self.name, *words],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                env=dict(pod.environ),
                pass_fds=(secret,),
                start_new_session=True,
            )
        finally:
            os.close(secret)
            os.close(printed)
        assert client.stdin is not None
        with client.stdin:
            self.answer(ContainerTold("running", image=image.told))
            while client.poll() is None:
                if self.clock.wait(self._over, LOOK_S):
                    self._remove(pod)
                    client.kill()
                    client.wait()
                    raise _OverError
                if self._has_to_stop():  # it was being made when that was said
                    self._pause()
            return self._told(pod, client.returncode, image)

    def _told(self, pod: PodContainers, code: int, image: Image) -> ContainerTold:
        """Return how the program ended, by the runtime; a client that failed is no program that did."""
        found = self._inspected(pod)
        if found is None or not found.has_started:
            if code in (126, 127):  # the runtime found no program, or may not run it
                return ContainerTold("ended", image=image.told, status=code)
            why = f"the container did not start: the client ended with status {code}"
            raise _FailedError("NOT_AVAILABLE", f"{why}, and what it said is in log.txt")
        if found.is_running:
            raise _FailedError("NOT_AVAILABLE", f"the client of the container ended with status {code} alone")
        return ContainerTold(
            "ended", image=image.told, status=found.exit_code, is_out_of_memory=found.is_out_of_memory
        )

    def _inspected(self, pod: PodContainers) -> Inspected | None:
        code, answer = pod.call(inspecting_words(self.name, pod.client))
        return read_inspected(answer) if code == 0 else None

    def _image(self, pod: PodContainers, name: str) -> Image:
        """Return the image, fetched where the pod has none of the name."""
        if not is_image(name):
            raise _FailedError("CONFIG", f"{name[:100]!r} is no name of an image")
        if found := _look(pod, name):
            return found
        self.answer(ContainerTold("pulling"))
        with tempfile.TemporaryFile() as said:
            client = subprocess.Popen(
                pulling_words(pod.client, name),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=dict(pod.environ),
                start_new_session=True,
            )
            until_s = self.clock.monotonic_s() + PULL_S
            while client.poll() is None:
                is_late = self.clock.monotonic_s() > until_s
                if is_late or self.clock.wait(self._over, LOOK_S):
                    client.kill()
                    client.wait()
                    if not is_late:
                        raise _OverError
                    why = f"the image was not fetched in {PULL_S:.0f} s"
                    raise _FailedError("REGISTRY_UNREACHABLE", why)
            said.seek(0)
            answer = said.read(ANSWER_BYTES_MAX).decode(errors="replace")
        if client.returncode:
            raise _FailedError(*pull_failure(answer))
        if found := _look(pod, name):
            return found
        raise _FailedError("NO_IMAGE", f"the image {name} was fetched, and is not there")

    def _remove(self, pod: PodContainers) -> None:
        """Remove the container, and prove that it is gone."""
        with self._turn:
            if self._is_paused:
                pod.call([pod.client, "unpause", self.name])
            _, said = pod.call(removing_words(self.name, client=pod.client))
            code, listed = pod.call(listing_words(name=self.name, client=pod.client))
            if code or listed.strip():
                why = said.decode(errors="replace").strip()[:300]
                log.error("container.remains", extra={"container": self.name, "why": why})
            self._gone.set()


def _look(pod: PodContainers, name: str) -> Image | None:
    code, answer = pod.call(image_words(pod.client, name))
    if code == 0:
        return read_image(answer)
    failure, why = pull_failure(answer.decode(errors="replace"))
    if code < 0 or failure == "NOT_AVAILABLE":
        raise _FailedError("NOT_AVAILABLE", why)
    return None


def _read_order(folder: int) -> ContainerOrder:
    """Return what the run's process wrote: a plain file of its folder, which is removed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(ORDER, flags, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _FailedError("NOT_AVAILABLE", "the order of the container is no plain file")
        text = file.read(ORDER_BYTES_MAX + 1)
    with suppress(OSError):
        os.unlink(ORDER, dir_fd=folder)
    try:
        return msgspec.json.decode(text, type=ContainerOrder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _FailedError("CONFIG", f"the program cannot be run in a container: {error}") from error


def _open_printed(folder: int) -> int:
    """Return the run's pipe, to which the program prints."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    pipe = os.open(PRINTED, flags, dir_fd=folder)
    if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
        os.close(pipe)
        raise _FailedError("NOT_AVAILABLE", "what the program shall print to is no pipe")
    os.set_blocking(pipe, True)
    return pipe
