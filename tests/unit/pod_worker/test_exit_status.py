"""The end of a child, told by its parent."""

from __future__ import annotations

import signal

import pytest

from events.delivery.pipe import LINE_MAX_BYTES, FactFrame, encode
from pod_worker.child.exit_status import (
    LAST_WORDS_MAX,
    End,
    Exited,
    NeverStarted,
    Signalled,
    TimedOut,
    describe,
    failure_for,
)


@pytest.mark.parametrize(
    ("end", "code", "retryable"),
    [
        (Exited(0), "EXITED", False),
        (Exited(3), "EXITED", False),
        (Signalled(signal.SIGKILL), "KILLED", True),
        (Signalled(signal.SIGTERM), "KILLED", True),
        (Signalled(signal.SIGHUP), "KILLED", True),
        (Signalled(signal.SIGSEGV), "SEGFAULT", False),
        (Signalled(signal.SIGBUS), "SEGFAULT", False),
        (Signalled(signal.SIGABRT), "ABORTED", False),
        (Signalled(signal.SIGILL), "ABORTED", False),
        (NeverStarted(60.0, None), "START_FAILED", True),
        (NeverStarted(1.0, Exited(1)), "START_FAILED", True),
        (NeverStarted(1.0, Signalled(signal.SIGSEGV)), "START_FAILED", True),
        (TimedOut("start", 60.0), "START_TIMEOUT", True),
        (TimedOut("total", 3600.0), "TIMEOUT", True),
        (TimedOut("no progress", 600.0), "NO_PROGRESS", True),
    ],
)
def test_every_end_has_a_code_of_its_own(end: End, code: str, retryable: bool) -> None:
    failure = failure_for(end, oom_evidence=False)
    assert (failure.code, failure.retryable) == (code, retryable)
    assert failure.message
    assert failure.traceback is None


def test_a_kill_with_the_kernels_evidence_is_out_of_memory() -> None:
    failure = failure_for(Signalled(signal.SIGKILL), oom_evidence=True)
    assert (failure.code, failure.retryable) == ("OUT_OF_MEMORY", False)


@pytest.mark.parametrize(
    ("end", "oom", "code"),
    [
        (Signalled(signal.SIGKILL), False, "PIPELINE_KILLED"),
        (Signalled(signal.SIGTERM), False, "PIPELINE_KILLED"),
        (Signalled(signal.SIGKILL), True, "OUT_OF_MEMORY"),
        (Signalled(signal.SIGSEGV), False, "SEGFAULT"),
        (Exited(1), False, "EXITED"),
    ],
)
def test_a_kill_beside_a_persons_program_has_a_code_of_its_own(end: End, oom: bool, code: str) -> None:
    failure = failure_for(end, oom_evidence=oom, runs_programs=True)
    assert failure.code == code
    assert failure.retryable is (code == "PIPELINE_KILLED")


@pytest.mark.parametrize(
    "end", [Signalled(signal.SIGSEGV), Signalled(signal.SIGTERM), Exited(1), TimedOut("total", 1)]
)
def test_the_kernels_evidence_explains_nothing_but_a_kill(end: End) -> None:
    assert failure_for(end, oom_evidence=True) == failure_for(end, oom_evidence=False)


@pytest.mark.parametrize("number", range(1, signal.NSIG))
def test_every_signal_can_be_told(number: int) -> None:
    failure = failure_for(Signalled(number), oom_evidence=False)
    assert failure.code in {"KILLED", "SEGFAULT", "ABORTED"}
    assert describe(Signalled(number)).startswith("was ended by ")


def test_messages_name_the_number_that_helps() -> None:
    assert "status 3" in failure_for(Exited(3), oom_evidence=False).message
    assert "SIGBUS" in failure_for(Signalled(signal.SIGBUS), oom_evidence=False).message
    assert "600 s" in failure_for(TimedOut("no progress", 600.0), oom_evidence=False).message
    early = failure_for(NeverStarted(2.0, Exited(1)), oom_evidence=False)
    assert "exited with status 1 before it was ready" in early.message


def test_the_last_words_stand_where_a_traceback_would() -> None:
    words = "x" * 1_000_000 + "Fatal Python error"
    failure = failure_for(Exited(1), oom_evidence=False, stage="Stage_2", last_words=words)
    assert failure.stage == "Stage_2"
    assert failure.traceback is not None
    assert len(failure.traceback) == LAST_WORDS_MAX
    assert failure.traceback.endswith("Fatal Python error")
    assert len(encode(FactFrame("ai.run.failed", {"traceback": failure.traceback}))) < LINE_MAX_BYTES
