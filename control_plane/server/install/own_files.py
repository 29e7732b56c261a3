"""Reads the podfleet that is installed here, from a checkout or a wheel, and keeps it as a wheel."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from control_plane.concurrency.singleflight import Singleflight
from control_plane.server.install.wheel import Wheel, packed
from events.runtime.errors import Transient

log = logging.getLogger(__name__)

NAME: Final = "podfleet"
PACKAGES: Final = ("control_plane", "events", "pod_worker", "podfleet", "stages")
# What a wheel says of itself; the rest of what is installed there is about this installation.
ABOUT: Final = ("METADATA", "WHEEL", "entry_points.txt")
LICENSES: Final = "licenses"
# Ours are 1,000 files with 9 MB: beyond that somebody keeps something else in our folders.
FILES_MAX: Final = 10_000
WHEEL_BYTES_MAX: Final = 64 << 20


@dataclass(slots=True)
class OwnWheel:
    """The wheel of this control plane: read once, when it is first asked for."""

    _kept: Wheel | None = None
    _reads: Singleflight[Wheel] = field(default_factory=Singleflight)

    async def read(self) -> Wheel:
        """Return it. Raises `Transient` where the files cannot be read, or are too many."""
        if self._kept is None:
            self._kept = await self._reads.read(NAME, lambda: asyncio.to_thread(own_wheel))
        return self._kept


def own_wheel() -> Wheel:
    """Return what is installed here as a wheel.

    Files whose names begin with a dot, links, and what Python has compiled are no part of it. Raises
    `Transient` where the files cannot be read, or are too many.
    """
    about = distribution(NAME)
    info = f"{NAME}-{about.version}.dist-info"
    files, size = dict(_described(about, info)), 0
    try:
        for package in PACKAGES:
            for path, file in sorted(_files(package)):
                files[path] = content = file.read_bytes()
                size += len(content)
                if len(files) > FILES_MAX or size > WHEEL_BYTES_MAX:
                    raise Transient("no_wheel", f"what lies in {file.parent} is more than podfleet is")
    except OSError as error:
        log.warning("install.unreadable", extra={"why": str(error)})
        raise Transient("no_wheel", "the files of this installation cannot be read") from error
    return packed(NAME, about.version, files)


def _described(about: Distribution, info: str) -> Iterator[tuple[str, bytes]]:
    for name in ABOUT:
        if (text := about.read_text(name)) is not None:
            yield f"{info}/{name}", text.encode()
    for path in about.files or ():
        if path.parent.name == LICENSES and path.parent.parent.suffix == ".dist-info":
            yield f"{info}/{LICENSES}/{path.name}", path.read_binary()


def _files(package: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a package with their paths in the wheel."""
    spec = find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for folder, folders, names in os.walk(root):
            folders[:] = [each for each in folders if not each.startswith(".") and each != "__pycache__"]
            for name in names:
                file = Path(folder, name)
                if name.startswith(".") or file.suffix in (".pyc", ".pyo") or file.is_symlink():
                    continue
                if file.is_file():
                    yield f"{package}/{file.relative_to(root).as_posix()}", file
