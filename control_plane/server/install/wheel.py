"""Packs files as a wheel: the same files give the same bytes on every machine, pure."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# No zip says an earlier time, and none of ours has one of its own.
MOMENT: Final = (1980, 1, 1, 0, 0, 0)
MODE: Final = (stat.S_IFREG | 0o644) << 16
UNIX: Final = 3


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel: the name of its file, the version, its bytes, and their SHA-256 in hexadecimal."""

    name: str
    version: str
    content: bytes = field(repr=False)
    sha256: str


def packed(name: str, version: str, files: Mapping[str, bytes]) -> Wheel:
    """Return the wheel of files by their paths in it, those of its `.dist-info` included.

    Nothing is compressed: what deflate makes depends on its library, and every replica has to serve the same
    bytes.
    """
    about = f"{name}-{version}.dist-info"
    record = f"{about}/RECORD"
    # what it is comes last, as the format recommends
    ordered = sorted(files, key=lambda path: (path.startswith(f"{about}/"), path))
    rows = [(path, f"sha256={_digest(files[path])}", len(files[path])) for path in ordered]
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([*rows, (record, "", "")])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in ordered:
            _add(archive, path, files[path])
        _add(archive, record, lines.getvalue().encode())
    content = buffer.getvalue()
    file = f"{name}-{version}-py3-none-any.whl"
    return Wheel(file, version, content, hashlib.sha256(content).hexdigest())


def _add(archive: zipfile.ZipFile, path: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(path, MOMENT)
    entry.create_system, entry.external_attr = UNIX, MODE
    archive.writestr(entry, content)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
