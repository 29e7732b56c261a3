"""Celery: the task, which its worker imports, and the program that hands tasks in.

As it comes, without results: a task is acknowledged before it runs, so it ends with the worker that has it.
"""

from __future__ import annotations

import os
import time
from typing import Final

from celery import Celery

from testing.bench.peers.programs.orders import note, obey

app: Final = Celery("jobs", broker=os.environ["BROKER"])
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
JOB: Final = app.task(note, name="job")


def hand_in(count: int) -> float:
    """Hand in so many jobs; return when that began."""
    begun_s = time.time()
    for _ in range(count):
        JOB.delay()
    return begun_s


if __name__ == "__main__":
    obey(hand_in)
