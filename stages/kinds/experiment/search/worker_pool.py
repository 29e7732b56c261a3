"""Runs several tasks at once, as many as the pod has slots; each slot has its own device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final, Generic, Self, TypeVar

T = TypeVar("T")

LOOK_S: Final = 20.0  # how often somebody hears that the work goes on


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """`slots` workers; where there are `gpus` devices worker n uses device n modulo `gpus`, else none."""

    slots: int
    gpus: int = 0


class TaskGroup(Generic[T]):
    """A group of tasks of one kind, each with its name, until the context is left.

    An exception leaves the context without a wait for running pieces.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._gpus = pool.gpus
        self._free: SimpleQueue[int] = SimpleQueue()
        for slot in range(pool.slots):
            self._free.put(slot)
        self._pool = ThreadPoolExecutor(pool.slots, thread_name_prefix="worker_pool")
        self._running: dict[Future[T], str] = {}

    def start(self, name: str, work: Callable[[int | None], T]) -> None:
        """Begin `work` as soon as a slot is free; it is handed its device."""
        self._running[self._pool.submit(self._in_slot, work)] = name

    def finished(self, still: Callable[[int], None]) -> Iterator[tuple[str, T]]:
        """Yield each piece as it finishes; `still` is called now and then with the number of open ones."""
        while self._running:
            done, _ = wait(self._running, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            if not done:
                still(len(self._running))
            # of several that finished since the last look, the one begun first goes first
            for future in [each for each in self._running if each in done]:
                name = self._running.pop(future)
                yield name, future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _in_slot(self, work: Callable[[int | None], T]) -> T:
        slot = self._free.get()
        try:
            return work(slot % self._gpus if self._gpus else None)
        finally:
            self._free.put(slot)
