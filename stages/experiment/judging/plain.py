"""Opens a plain file in a folder where somebody hostile has written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(file: Path) -> BinaryIO:
    """Open a plain file to read; a link, a pipe or a folder in its place raises `OSError`, at once."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")
