"""The container of an engine on this pod: looked at, ended, and proven to be gone.

Law: every call of Docker's client has an end, and a bounded answer. What Docker lists no more is gone, and
nothing else is taken for gone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.models.containers import (
    Container,
    Inspected,
    inspecting_words,
    listing_words,
    logging_words,
    read_inspected,
    removing_words,
    stopping_words,
)

CALL_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 4 << 20
WORDS_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Docker:
    """Docker's client on this pod, and the container that it is asked about."""

    container: Container
    environment: Mapping[str, str] = field(repr=False)
    folder: Path

    def inspected(self) -> Inspected | None:
        """Return what Docker says of the container, None while or once there is none."""
        code, answer = self._call(inspecting_words(self.container.name))
        return read_inspected(answer) if code == 0 else None

    def write_log(self, log: Path) -> None:
        """Write into a file all that the container has written, where Docker has more than the file."""
        kept = self.folder / "container.log"
        with kept.open("wb") as out:
            self._run(logging_words(self.container.name), out.fileno())
        if kept.stat().st_size > log.stat().st_size:
            kept.replace(log)
        else:
            kept.unlink()

    def stop(self, term_s: float) -> None:
        """Let it end by itself, for so many seconds."""
        self._call(stopping_words(self.container.name, term_s), CALL_S + term_s)

    def remove(self) -> str | None:
        """End and remove it; return in words what is left, None where nothing is."""
        _, said = self._call(removing_words(self.container.name))
        code, listed = self._call(listing_words(name=self.container.name))
        if code == 0 and not listed.strip():
            return None
        words = (listed if code else said).decode(errors="replace").strip()[:WORDS_CHARS]
        return f"its container {self.container.name}{f' ({words})' if words else ''}"

    def _call(self, words: Sequence[str], limit_s: float = CALL_S) -> tuple[int, bytes]:
        answer = self.folder / "docker.answer"
        with answer.open("wb") as out:
            code = self._run(words, out.fileno(), limit_s)
        with answer.open("rb") as file:
            return code, file.read(ANSWER_BYTES_MAX)

    def _run(self, words: Sequence[str], out: int, limit_s: float = CALL_S) -> int:
        """Run the client into a file; one that takes too long is killed, and has failed."""
        try:
            return subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=limit_s,
                env=dict(self.environment), check=False,
            ).returncode  # fmt: skip
        except (subprocess.TimeoutExpired, OSError):
            return -1
