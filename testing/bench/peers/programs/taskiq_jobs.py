"""taskiq: the task, which its worker imports, and the program that hands tasks in.

As it comes, on a stream of Redis, without results: a task is acknowledged when it has ended.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

from taskiq_redis import RedisStreamBroker

from testing.bench.peers.programs.orders import note, obey


async def _job() -> None:
    note()


broker: Final = RedisStreamBroker(url=os.environ["BROKER"])
JOB: Final = broker.task(task_name="job")(_job)


async def hand_in(count: int) -> float:
    """Hand in so many jobs; return when that began."""
    begun_s = time.time()
    for _ in range(count):
        await JOB.kiq()
    return begun_s


def main() -> None:
    """Hand jobs in as told."""
    with asyncio.Runner() as runner:
        runner.run(broker.startup())
        obey(lambda count: runner.run(hand_in(count)))
        runner.run(broker.shutdown())


if __name__ == "__main__":
    main()
