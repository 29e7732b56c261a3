"""The settings that the embedded stack passes to its services: the environment, then `.env`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

from events.runtime.access import DATA_DEFAULT, Access, access, running
from events.runtime.errors import ConfigError

DOTENV: Final = ".env"


def environment(directory: Path) -> dict[str, str]:
    """Return the variables for the stack: those of `.env` in `directory`, overruled by the real ones.

    A variable that is empty in `.env` counts as not set. Raises `ConfigError`.
    """
    return {**written(directory / DOTENV), **os.environ}


def written(file: Path) -> dict[str, str]:
    """Return the variables that have a value in a file, none where there is no file. Raises `ConfigError`."""
    try:
        return {name: value for name, value in dotenv_values(file).items() if value}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file} cannot be read: {error}"]) from error


def data_folder(folder: Path) -> Path:
    """Return where a fleet of this folder keeps its data."""
    return Path(os.environ.get("PODFLEET_DATA") or folder / DATA_DEFAULT)


def found_access(folder: Path) -> Access:
    """Return the control plane to ask from a folder, and the key for it. Raises `ConfigError`."""
    return access(os.environ, written(folder / DOTENV), running(data_folder(folder)))
