"""Bounds the files of an attempt: their number, and their bytes by the declared lengths.

Law: a PUT is counted when it is signed, by the length that it is signed for. The same content signed again
costs nothing, nor do the parts of a file that is counted. A signed PUT counts, used or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from control_plane.model.byte_limits import ARTIFACT_BYTES_DEFAULT, OVER_BUDGET
from control_plane.model.projection import attempt_id
from control_plane.store.log.byte_counts import ByteCounts
from events.queue.settlement import TOKEN_LIFE
from events.runtime.clock import Clock
from events.runtime.errors import Rejected

FILES_MAX: Final = 200_000  # also of those without a byte
# Nobody can have it signed again after that: the token of the attempt is over.
NOTED: Final = TOKEN_LIFE + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class UploadBudget:
    """Counts the signed PUTs of attempts."""

    counts: ByteCounts
    clock: Clock
    artifact_bytes_max: int = ARTIFACT_BYTES_DEFAULT

    async def take(self, run_id: str, attempt: int, puts: Sequence[tuple[str, int]]) -> None:
        """Count PUTs, each a key and a size in bytes. Raises `Rejected` (`over_budget`), `Transient`."""
        new = [puts[index] for index in await self.counts.new_puts(puts, self.clock.now() + NOTED)]
        size = sum(bytes_ for _, bytes_ in new)
        most = {"artifacts": self.artifact_bytes_max, "files": FILES_MAX}
        added = {"artifacts": size, "files": len(new)}
        if not new or await self.counts.add_files(attempt_id(run_id, attempt), added, most):
            return
        await self.counts.forget_puts(new)
        raise Rejected(
            OVER_BUDGET,
            f"{len(new):,} more files of {size:,} bytes are too many: attempt {attempt} may keep "
            f"{FILES_MAX:,} of {self.artifact_bytes_max:,} bytes: keep less, or set "
            "PODFLEET_ARTIFACT_BYTES_MAX higher",
        )
