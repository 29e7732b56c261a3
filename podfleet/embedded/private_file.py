"""Files that only their owner may read, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


def private_directory(path: Path) -> Path:
    """Make `path` a directory that only its owner may enter, and return it."""
    path.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    path.chmod(DIRECTORY_MODE)
    return path


def replace_private(path: Path, text: str) -> None:
    """Give `path` this content; a reader, or a crash, sees the old content or the new one."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)  # left by a crash; its mode may be anybody's
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
