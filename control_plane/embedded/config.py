"""The settings that the embedded stack hands on to its parts: the environment, and `.env` below it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

DOTENV: Final = ".env"


def environment(directory: Path) -> dict[str, str]:
    """Return the variables for the stack: those of `.env` in `directory`, overruled by the real ones.

    A variable that is empty in `.env` counts as not set.
    """
    written = {name: value for name, value in dotenv_values(directory / DOTENV).items() if value}
    return {**written, **os.environ}
