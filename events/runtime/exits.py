"""The exit status by which a program tells its supervisor that it left for good."""

from __future__ import annotations

from typing import Final

EXIT_LEFT: Final = 3  # a worker that was drained, or idle for its time: do not start it again
