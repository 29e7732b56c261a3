"""The name of a service of a pod that people may reset."""

from __future__ import annotations

from typing import Final

SERVICE_NAME: Final = r"[a-z0-9][a-z0-9_.-]{0,39}"
