"""The disk of one pod: a folder, or a small file system of its own that can be filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

MOUNT_S: Final = 10.0
BLOCK_BYTES: Final = 64 * 1024
MOUNT: Final = "mount"


@dataclass(slots=True)
class Disk:
    """`size_bytes` asks for a file system of its own; `can_be_full` tells whether there is one."""

    folder: Path
    size_bytes: int | None
    can_be_full: bool = False

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.size_bytes is not None and may_mount():
            options = f"size={self.size_bytes},mode=0700"
            command = [MOUNT, "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
            mounted = subprocess.run(command, capture_output=True, timeout=MOUNT_S, check=False)
            self.can_be_full = mounted.returncode == 0
        return self

    def __exit__(self, *_: object) -> None:
        if self.can_be_full:
            # Lazily: a child that was killed a moment ago may still have a file open.
            command = ["umount", "--lazy", str(self.folder)]
            subprocess.run(command, capture_output=True, timeout=MOUNT_S, check=False)

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        block = bytes(BLOCK_BYTES)
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (BLOCK_BYTES, 4096, 1):
                try:
                    while ballast.write(block[:size]):
                        pass
                except OSError:
                    continue  # no room for as much; smaller pieces may still fit

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)

    def empty(self) -> None:
        """Remove everything."""
        for entry in self.folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def may_mount() -> bool:
    """Say whether this machine lets us mount a file system: it takes root, and a mount program."""
    return os.geteuid() == 0 and shutil.which(MOUNT) is not None
