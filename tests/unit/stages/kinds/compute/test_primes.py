"""Prime counts: three algorithms, any number of threads, and a machine that counts wrongly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from events.kinds.compute import PRIMES
from events.runtime.errors import PipelineError
from stages.kinds.compute.counting import count
from stages.kinds.compute.primes import BLOCK, KNOWN, SEGMENT, Counter, Piece, Plan, expected, summed
from stages.kinds.compute.process_pool import Pool, ProcessPool, SingleProcess, pool_of

ALL: Final = sorted(PRIMES)


class Heard:
    """Hears how far a count is."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str, float]] = []

    def progress(self, fraction: float, what: str, number: float) -> None:
        self.told.append((fraction, what, number))


def counted(work: str, n: int, threads: int = 1, heard: Heard | None = None) -> int:
    plan = Plan(work, n, threads)
    array = np.ones(plan.odds, dtype=np.bool_) if work == "simple_sieve" else None
    return count(plan, SingleProcess(Counter(n, array)), heard or Heard())


def by_definition(n: int) -> int:
    return sum(all(number % each for each in range(2, int(number**0.5) + 1)) for number in range(2, n + 1))


@pytest.mark.parametrize("work", ALL)
def test_a_count_is_that_of_the_definition_for_each_small_n(work: str) -> None:
    right = 0
    for n in range(400):
        right += by_definition(n) - by_definition(n - 1) if n > 1 else 0
        assert counted(work, n) == right == expected(n), n


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 20_000), st.integers(1, 4))
@example(0, 1)
@example(1, 4)
@example(2, 2)
@example(141**2, 3)
@example(139**2, 3)  # the square of a prime
@example(139**2 - 1, 3)
def test_all_algorithms_agree_with_a_count_without_a_sieve(n: int, threads: int) -> None:
    assert {counted(work, n, threads) for work in ALL} == {summed(n)}


@pytest.mark.parametrize("n", [2 * at + beside for at in (BLOCK, SEGMENT) for beside in (-2, -1, 0, 1, 2)])
@pytest.mark.parametrize("work", ["segmented_sieve", "simple_sieve"])
def test_the_edge_of_a_segment_hides_no_prime(work: str, n: int) -> None:
    assert counted(work, n) == summed(n)


@pytest.mark.parametrize("n", [each for each in KNOWN if each <= 10**8])
def test_known_counts_are_found_without_a_sieve_too(n: int) -> None:
    assert summed(n) == KNOWN[n]


@pytest.mark.parametrize(("work", "n"), [("segmented_sieve", 2 * 10**7), ("simple_sieve", 10**7)])
def test_large_counts_are_the_known_ones_and_their_progress_only_grows(work: str, n: int) -> None:
    heard = Heard()
    assert counted(work, n, 2, heard) == KNOWN[n]
    fractions = [fraction for fraction, _, _ in heard.told]
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)
    assert len(fractions) > 3, "whoever cancels waits for a piece"


def test_pieces_of_a_plan_cover_each_odd_number_once() -> None:
    for threads in (1, 3, 7):
        for work in ("segmented_sieve", "trial_division"):
            ((*pieces,),) = Plan(work, 5 * 10**6, threads).steps()
            assert [each.start for each in pieces] == [0, *(each.stop for each in pieces[:-1])]
            assert pieces[-1].stop == 2_500_000


def test_processes_count_what_one_thread_counts_and_end_with_their_crew() -> None:
    n = 300_000
    with pool_of(n, 3, Plan("simple_sieve", n, 3).odds, {}) as pool:
        assert isinstance(pool, ProcessPool)
        for work in ALL:
            found = {count(Plan(work, n, threads), pool, Heard()) for threads in (1, 2, 3, 4)}
            assert found == {counted(work, n)} == {25_997}
        assert [each.process.poll() for each in pool.workers] == [None] * 3
    assert None not in [each.process.poll() for each in pool.workers]


@contextmanager
def workers_that(does: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """Provide a pool whose processes say that they are ready, and then do something else."""
    program = f"import os,sys,time; print(0, flush=True); sys.stdin.readline(); {does}"
    monkeypatch.setattr("stages.kinds.compute.process_pool.COMMAND", (sys.executable, "-c", program))
    with pool_of(100, 2, 0, {}) as pool:
        yield pool


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("os._exit(7)", "ended with status 7"),
        ("print('9' * 100)", "ended with status 0"),
        ("print(-1, flush=True); time.sleep(60)", "does not answer"),
        ("print('٣', flush=True); time.sleep(60)", "does not answer"),
    ],
)
def test_a_process_that_ends_or_answers_nonsense_fails_the_run(
    does: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stages.kinds.compute.process_pool.LEAVE_S", 0.1)
    with workers_that(does, monkeypatch) as pool, pytest.raises(PipelineError, match=says) as caught:
        list(pool.counts([Piece("sieve", 0, 50)]))
    assert (caught.value.code, caught.value.retryable) == ("PROCESS_ENDED", True)
