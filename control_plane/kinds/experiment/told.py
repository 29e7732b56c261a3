"""What each attempt of an experiment is told at its start: the verdicts on each data set so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control_plane.kinds.experiment.data_uses import verdicts_on_rows
from control_plane.store.reads import RunReads


async def told(reads: RunReads, run_id: str) -> Mapping[str, Any]:
    """Return how many verdicts other runs gave on the rows of each data set."""
    return await verdicts_on_rows(reads.db, run_id)
