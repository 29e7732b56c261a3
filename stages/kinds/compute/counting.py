"""The laps of a prime count: each counts all primes up to N, and is held against what the count has to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from events.kinds.results import Value
from events.runtime.errors import PipelineError
from stages.kinds.compute.laps import Job, Lap, Telling, per_s, timed
from stages.kinds.compute.machine import memory_left_bytes, need_memory
from stages.kinds.compute.primes import Plan, expected
from stages.kinds.compute.process_pool import Pool, pool_of

PROCESS_BYTES: Final = 48 << 20  # of a process of a pool, with numpy


@contextmanager
def counted(job: Job) -> Iterator[Lap]:
    """Provide the laps of a count, its processes started and its array allocated."""
    spec = job.spec
    plan = Plan(spec.work, spec.n, job.threads)
    array_bytes = plan.odds if spec.work == "simple_sieve" else 0
    lower = "n, or take segmented_sieve" if array_bytes else "threads"
    need_memory(array_bytes + PROCESS_BYTES * (job.threads - 1), memory_left_bytes(), lower=lower)
    right = expected(spec.n)
    with pool_of(spec.n, job.threads, array_bytes, job.variables) as pool:

        def lap(telling: Telling) -> Mapping[str, Value]:
            begun_s = job.clock.monotonic_s()
            found = count(plan, pool, telling)
            elapsed_s = job.clock.monotonic_s() - begun_s
            if found != right:
                raise PipelineError(
                    "WRONG_COUNT",
                    f"{spec.work} counted {found:,} primes <= {spec.n:,}, and there are {right:,}: "
                    "this machine computes wrongly",
                )
            return {
                **timed(1, elapsed_s),
                "primes_found": found,
                "primes_per_s": per_s(found, elapsed_s),
                "threads_used": job.threads,
            }

        yield lap


def count(plan: Plan, pool: Pool, telling: Telling) -> int:
    """Return how many primes there are up to the plan's N."""
    found = 1 if plan.n >= 2 else 0  # 2 is the even one
    steps = list(plan.steps())
    cost = sum(piece.cost for step in steps for piece in step)
    done = 0.0
    for step in steps:
        for piece, primes in pool.counts(step):
            found += primes
            done += piece.cost
            telling.progress(done / cost, "primes", found)
    return found
