"""The pipeline's process: imports heavy modules, sends Ready, runs one order, ends.

Law: it sends facts and nothing else; the parent assigns ids, times and sequences. It is started as
`python -m pod_worker.child.main`, with two inherited pipes; `pod_worker.child.process` is the other side.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import fcntl
import os
import resource
import select
import signal
import struct
import sys
import termios
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Final

import msgspec

from events.catalog import ENDS, TYPES, RunCanceled, RunFailed, RunLog, RunStarted, type_of
from events.delivery.pipe import (
    LINE_MAX_BYTES,
    ContainerTold,
    Environment,
    FactFrame,
    FromChild,
    Go,
    Kept,
    Made,
    Ready,
    Renewed,
    Shown,
    Start,
    decode_parent,
    encode,
)
from events.kinds import KINDS, read_spec
from events.kinds.declaring.fact import Fact
from events.queue.notes import Note
from events.runtime.clock import SystemClock
from events.runtime.errors import Canceled, Rejected
from pod_worker.child.barrier import ChildBarrier
from pod_worker.child.checkpoints import ChildCheckpoints
from pod_worker.child.confine import enter
from pod_worker.child.live_view import ChildLiveView, flush_rule
from pod_worker.child.notes import ChildNotes
from pod_worker.child.tools import tools
from pod_worker.files.container_request import ChildContainers
from pod_worker.files.environment_request import ChildEnvironments
from pod_worker.isolation.confinement import Confinement
from pod_worker.isolation.privileges import drop_capabilities
from stages.adapters.gpus import visible_gpus
from stages.context import OUTSIDE, Context
from stages.pipeline import Pipeline, run_pipeline
from stages.registry import installed, load

# Characters of one field in a frame that would else be too long; JSON may need six bytes for each.
TEXT_MAX: Final = 10_000
NAME_MAX: Final = 200
NAMES: Final = frozenset({"code", "name", "node", "stage"})  # fields that hold at most NAME_MAX characters
PR_SET_PDEATHSIG: Final = 1
PR_SET_NAME: Final = 15
# What `ps` and `top` show of the process of a run, however it came to be.
PROCESS_NAME: Final = "podfleet-run"
STRIKES_MAX: Final = 20
STRIKE_EVERY_S: Final = 0.25
SHOWN_UNREAD_MAX: Final = 16 * 1024  # bytes in the pipe, of 64 KiB, beyond which live text is dropped
OFFER_WAIT_S: Final = 0.01  # for another thread's word, which waits itself where the pipe is full

Loader = Callable[[Sequence[str]], Mapping[str, Pipeline]]


def main(argv: Sequence[str], loader: Loader | None = None) -> int:
    """Serve one order; return the exit status."""
    arguments = _parse(argv)
    if arguments.confinement is None:
        drop_capabilities()
    else:
        enter(arguments.confinement, arguments.confinement.space_of(arguments.space))
    prepare(PROCESS_NAME)
    if arguments.die_with is not None:
        die_with(arguments.die_with)
    interruption = Interruption()
    reporter = PipeReporter(arguments.events_fd, interruption)
    loading = Loading(deque(arguments.kinds or installed()), loader or load_what_works, reporter)
    if not loading.until_something_works():
        return 1  # why is on standard error
    threading.Thread(target=loading.finish, name="loading", daemon=True).start()
    return _await_order(arguments.orders_fd, loading.pipelines, reporter, interruption)


def attend(events: int, orders: int, pipelines: Mapping[str, Pipeline]) -> int:
    """Serve one order in a process that was forked from a warm one; return the exit status."""
    call_itself(PROCESS_NAME)
    interruption = Interruption()
    reporter = PipeReporter(events, interruption)
    rehearse(pipelines)
    reporter.send(Ready(sorted(pipelines), device_in_words()))
    return _await_order(orders, pipelines, reporter, interruption)


def rehearse(kinds: Iterable[str]) -> None:
    """Do once what every order needs, before one comes: the first use of code and memory is slow."""
    for kind in kinds:
        with suppress(Rejected):  # it lacks what must be said
            read_spec(kind, {})
    order = Start(run_id="", attempt=0, kind="", spec={}, workspace="", restored="")
    decode_parent(encode(order))
    frame_of(RunStarted())
    tools(os.environ)


def _await_order(
    orders: int, pipelines: Mapping[str, Pipeline], reporter: PipeReporter, interruption: Interruption
) -> int:
    parent = os.fdopen(orders, "rb")
    order = read_order(parent)
    if order is None:
        parent.close()
    else:
        serve(order, pipelines, reporter, interruption, parent)
    return 0


@dataclass(frozen=True, slots=True)
class Loading:
    """Imports the pipelines one after the other; a kind can run while slower ones are imported."""

    rest: deque[str]
    load: Loader
    reporter: PipeReporter
    pipelines: dict[str, Pipeline] = field(default_factory=dict)

    def until_something_works(self) -> bool:
        """Load until there is one kind to run; False where none works."""
        while self.rest and not self.pipelines:
            self._step()
        return bool(self.pipelines)

    def finish(self) -> None:
        """Load what is left."""
        while self.rest:
            self._step()

    def _step(self) -> None:
        self.pipelines.update(self.load([self.rest.popleft()]))
        if self.pipelines:
            kinds = sorted(self.pipelines)
            self.reporter.send(Ready(kinds, device_in_words(), is_loading=bool(self.rest)))


def load_what_works(kinds: Sequence[str]) -> dict[str, Pipeline]:
    """Import each pipeline by itself: one that is broken must not take the others off the pod."""
    pipelines: dict[str, Pipeline] = {}
    for kind in kinds:
        try:
            pipelines |= load([kind])
        except Exception:  # noqa: BLE001 - an import may raise anything; the parent logs what we print
            traceback.print_exc()
    return pipelines


def read_order(parent: BinaryIO) -> Start | None:
    """Wait for the order; None if the parent ended without one."""
    line = parent.readline()
    order = decode_parent(line) if line.endswith(b"\n") else None
    return order if isinstance(order, Start) else None


def serve(
    order: Start,
    pipelines: Mapping[str, Pipeline],
    reporter: PipeReporter,
    interruption: Interruption,
    parent: BinaryIO,
) -> None:
    """Run the order; exactly one final event is sent, at whatever moment a signal comes."""
    rule = flush_rule(os.environ)
    # Not in the block that /proc shows of this process, which is as it was at its start.
    os.environ.update(order.secrets)
    workspace = Path(order.workspace)
    checkpoints = ChildCheckpoints(
        run_id=order.run_id,
        attempt=order.attempt,
        folder=workspace / "manifests",
        found=Path(order.restored),
        send=reporter.send,
        clock=SystemClock(),
        pods_before=order.pods_before,
    )
    notes = ChildNotes()
    for note in order.notes:
        notes.hear(note)
    barrier = ChildBarrier(reporter.send, SystemClock(), is_open=not order.barrier)
    environments = ChildEnvironments(reporter.send, SystemClock())
    containers = ChildContainers(reporter.send, SystemClock())
    threading.Thread(
        target=hear_parent,
        args=(parent, checkpoints, notes, barrier, environments, containers),
        name="parent",
        daemon=True,
    ).start()
    live = ChildLiveView(reporter.offer, SystemClock(), rule, interruption)
    try:
        interruption.listen()
        _run(order, pipelines, reporter, checkpoints, notes, barrier, live, environments, containers)
    except Canceled as error:  # it struck between the pipeline and the report of its end
        if not reporter.ended:
            reporter.say(RunCanceled(reason=str(error)))


def hear_parent(
    parent: BinaryIO,
    checkpoints: ChildCheckpoints,
    notes: ChildNotes,
    barrier: ChildBarrier,
    environments: ChildEnvironments,
    containers: ChildContainers,
) -> None:
    """Read the parent's messages after the order, until the pipe closes."""
    with parent:
        for line in parent:
            match decode_parent(line):
                case Kept() as kept:
                    checkpoints.hear(kept)
                case Note() as note:
                    notes.hear(note)
                case Go() as go:
                    barrier.hear(go)
                case Environment() as environment:
                    environments.hear(environment)
                case ContainerTold() as told:
                    containers.hear(told)
                case Renewed(secrets=secrets):
                    os.environ.update(secrets)
                case Start():
                    return  # a child serves one order


def _run(
    order: Start,
    pipelines: Mapping[str, Pipeline],
    reporter: PipeReporter,
    checkpoints: ChildCheckpoints,
    notes: ChildNotes,
    barrier: ChildBarrier,
    live: ChildLiveView,
    environments: ChildEnvironments,
    containers: ChildContainers,
) -> None:
    pipeline = pipelines.get(order.kind)
    if pipeline is None:
        message = f"this pod has no pipeline for {order.kind!r}; it has {', '.join(sorted(pipelines))}"
        reporter.say(RunFailed(code="NOT_AVAILABLE", message=message, stage=OUTSIDE, retryable=True))
        return
    try:
        spec = read_spec(order.kind, order.spec)
    except Rejected as error:
        reporter.say(RunFailed(code="CONFIG", message=error.message, stage=OUTSIDE))
        return
    context = Context(
        run_id=order.run_id,
        attempt=order.attempt,
        spec=spec,
        workspace=Path(order.workspace),
        clock=SystemClock(),
        reporter=reporter,
        checkpoints=checkpoints,
        notes=notes,
        tools=tools(os.environ, order.secrets),
        pod=order.pod,
        replication_asked=order.replication_asked,
        told=order.told,
        trees={name: Path(path) for name, path in order.trees.items()},
        kind=KINDS[order.kind],
        barrier=barrier,
        live=live,
        environments=environments,
        containers=containers,
    )

    def shown(context: Context) -> str:
        try:
            return pipeline(context)
        finally:
            live.flush()  # before the end is told

    run_pipeline(shown, context)


class Interruption:
    """Raises `Canceled` at the first SIGTERM, but never in the middle of a frame.

    As a context manager, it delays the exception until the block is left.
    """

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        threading.Thread(target=self._insist, args=(reader,), name="interruption", daemon=True).start()
        self._spent = False
        self._pending = False
        self._depth = 0
        self._main_id = threading.main_thread().ident

    def listen(self) -> None:
        """Handle SIGTERM from now on; before, it just ends the process."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self.on_signal)

    def close(self) -> None:
        """Ignore SIGTERM from now on."""
        self._spent = True
        self._pending = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._spent:
            return  # a second request must not break into the clean-up after the first
        self._spent = True
        if self._depth:
            self._pending = True
        else:
            raise _canceled()

    def _insist(self, reader: int) -> None:
        """Send the signal again: Python does not notice one that came just before a blocking call."""
        while os.read(reader, 1)[0] != signal.SIGTERM:
            pass  # a signal that the pipeline itself listens to
        never = threading.Event()
        for _ in range(STRIKES_MAX):
            never.wait(STRIKE_EVERY_S)
            if self._spent or self._main_id is None or signal.getsignal(signal.SIGTERM) != self.on_signal:
                return  # noticed, or a matter of the pipeline's own handler
            signal.pthread_kill(self._main_id, signal.SIGTERM)

    def __enter__(self) -> None:
        if threading.get_ident() == self._main_id:  # signals strike in the main thread only
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.get_ident() != self._main_id:
            return
        self._depth -= 1
        if self._pending and not self._depth:
            self._pending = False
            raise _canceled()


class PipeReporter:
    """Writes frames into the pipe to the parent; a full pipe makes the pipeline wait."""

    def __init__(self, events_fd: int, interruption: Interruption) -> None:
        self.ended = False
        self._fd = events_fd
        self._interruption = interruption
        self._lock = threading.Lock()  # a pipeline may report from several threads
        os.set_inheritable(events_fd, False)
        os.register_at_fork(after_in_child=self._disown)

    def say(self, fact: Fact) -> None:
        """Report a fact; one that cannot be sent becomes a log line of level error."""
        is_end = type_of(type(fact)) in ENDS
        if is_end:
            flush_output()  # what was printed before the end is read before the end
        with self._interruption:
            self._write(frame_of(fact))
            if is_end:
                self.ended = True
                self._interruption.close()

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        """Report a finished file. Raises `ValueError` for a name that is not valid for an artifact."""
        if not 0 < len(name) <= NAME_MAX or clean(name) != name:
            raise ValueError(f"an artifact's name is text of 1 to {NAME_MAX} characters: {name!r}")
        self.send(Made(path=str(path.absolute()), name=name, content_type=content_type, stage=stage))

    def send(self, frame: FromChild) -> None:
        """Write one frame, whole."""
        with self._interruption:
            self._write(encode(frame))

    def offer(self, shown: Shown) -> bool:
        """Write a frame at once, or drop it where the parent is behind, and say whether it was written.

        What is left of the pipe is for facts: none of them is to wait behind what may be dropped.
        """
        line = encode(shown)
        with self._interruption:
            if not self._lock.acquire(timeout=OFFER_WAIT_S):
                return False
            try:
                if len(line) > select.PIPE_BUF or self._fd < 0 or not _has_room(self._fd):
                    return False
                os.write(self._fd, line)
            except OSError:  # nobody reads any more; whoever has a fact to tell meets that
                return False
            finally:
                self._lock.release()
        return True

    def _write(self, line: bytes) -> None:
        with self._lock:
            if self._fd < 0:
                raise RuntimeError("only the pipeline's own process may report, not one that it forked")
            while line:
                line = line[os.write(self._fd, line) :]

    def _disown(self) -> None:
        """Close the pipe in a forked process: it does not share the lock, so that frames would interleave."""
        os.close(self._fd)
        self._fd = -1
        self._lock = threading.Lock()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _has_room(pipe: int) -> bool:
    """Say whether a pipe takes one page more without waiting, and is far from full."""
    unread = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0]
    writable = select.poll()
    writable.register(pipe, select.POLLOUT)
    return unread < SHOWN_UNREAD_MAX and bool(writable.poll(0))


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a fact cannot be sent."""

    reason: str


def frame_of(fact: Fact) -> bytes:
    """Return the line that reports `fact`; its texts are cut if the line would be too long."""
    line = _encoded(fact)
    if not isinstance(line, Misfit):
        return line
    fitted = _encoded(msgspec.structs.replace(fact, **_cut_texts(fact)))
    if not isinstance(fitted, Misfit):
        return fitted
    name = type_of(type(fact))
    message = cut(clean(f"{name} was not reported as it was: {fitted.reason}"), TEXT_MAX)
    line = encode(FactFrame(type_of(RunLog), {"message": message, "level": "error"}))
    if isinstance(fact, RunFailed):  # an end is never lost, whatever else of it is
        message = cut(clean(f"{fact.code}: {fact.message}"), TEXT_MAX)
        line += encode(FactFrame(name, {"code": "FAILED", "message": message, "retryable": fact.retryable}))
    elif name in ENDS:
        line += encode(FactFrame(name, {}))
    return line


def _encoded(fact: Fact) -> bytes | Misfit:
    """Return the frame, if it is short enough and the control plane would take it."""
    name = type_of(type(fact))
    try:
        data = _encoder.encode(fact)
        _decoders[name].decode(data)
    except (ValueError, TypeError, OverflowError) as error:
        return Misfit(str(error))
    line = _openings[name] + data + _CLOSING
    if len(line) > LINE_MAX_BYTES:
        return Misfit(f"{len(line)} bytes are more than {LINE_MAX_BYTES}")
    return line


def _plain(value: Any) -> Any:
    """Return a number of numpy or torch as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON")


# A frame around what is JSON already: each further call costs a loop that fills the caches ten microseconds.
_CLOSING: Final = b"}\n"
_openings: Final = {name: encode(FactFrame(name, {})).removesuffix(b"{}" + _CLOSING) for name in TYPES}
_encoder: Final = msgspec.json.Encoder(enc_hook=_plain)
_decoders: Final = {name: msgspec.json.Decoder(fact) for name, fact in TYPES.items()}


def _cut_texts(fact: Fact) -> dict[str, str]:
    """Return the text fields of `fact` as valid UTF-8, cut to fit into one line together."""
    fields = msgspec.structs.asdict(fact)
    texts = {name: clean(value) for name, value in fields.items() if isinstance(value, str)}
    return {name: cut(text, NAME_MAX if name in NAMES else TEXT_MAX) for name, text in texts.items()}


def cut(text: str, limit: int) -> str:
    """Return `text`, without its middle if it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    note = f" [... {len(text) - limit} characters left out ...] "
    kept = max(0, limit - len(note))
    head = kept // 2
    return text[:head] + note + text[len(text) - (kept - head) :]


def clean(text: str) -> str:
    """Return `text` without lone surrogates, which no UTF-8 can carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def device_in_words() -> str:
    """Return what the pipelines compute on, for people."""
    names = visible_gpus(os.environ)
    if names:
        return names[0] if len(names) == 1 else f"{len(names)} x {names[0]}"
    return f"cpu, {len(os.sched_getaffinity(0))} threads"


def _canceled() -> Canceled:
    return Canceled("the pod asked the pipeline to stop")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pod_worker.child.main", description=__doc__)
    parser.add_argument("--events-fd", type=int, required=True)
    parser.add_argument("--orders-fd", type=int, required=True)
    parser.add_argument("--die-with", type=int, help="process id of the parent: end when it ends")
    parser.add_argument("--confinement", type=Confinement.read, help="what keeps it from the worker")
    parser.add_argument("--space", type=int, help="the number of what it is confined to")
    parser.add_argument("--kinds", nargs="*", help="load these kinds only")
    return parser.parse_args(argv)


def prepare(name: str) -> None:
    """Set this process up for pipelines, and set its name."""
    call_itself(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's matter
    faulthandler.enable()  # a crash in native code leaves the Python stack on standard error
    # Gigabytes of core file would fill the pod's disk; whoever wants one may raise the limit again.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]


def call_itself(name: str) -> None:
    """Give the process a name of at most 15 characters."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def die_with(parent: int) -> None:
    """Let the kernel end this process with its parent."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked to die with it
        os._exit(0)


def flush_output() -> None:
    """Flush standard output and standard error."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError):  # a pipeline may have closed or replaced its streams
            stream.flush()


def leave(status: int) -> None:
    """End the process at once: no thread of the pipeline holds the pod, no clean-up can crash."""
    flush_output()
    os._exit(status)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
