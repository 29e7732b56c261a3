"""Stages before the own work of a run, whose time is overhead, by their names."""

from __future__ import annotations

from typing import Final

SOURCE: Final = "source"  # its files are fetched
ENVIRONMENT: Final = "environment"  # its packages are installed
OVERHEAD: Final = frozenset({SOURCE, ENVIRONMENT})
