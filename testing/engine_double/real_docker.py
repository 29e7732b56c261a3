"""Docker of this machine, where it has one that answers, and an image made of the machine's own files."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from typing import Final

IMAGE: Final = "podfleet-test/shell:1"
PROGRAMS: Final = ("sh", "sleep", "echo", "cat", "id", "env", "ls")
CALL_S: Final = 60.0


def lacks_docker(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return why no test can use Docker here, None where one can."""
    if shutil.which("docker", path=environ.get("PATH")) is None:
        return "there is no docker here"
    try:
        done = _call(["info"], environ, limit_s=10.0)
    except subprocess.TimeoutExpired:
        return "no daemon of Docker answers in time"
    return None if done.returncode == 0 else "no daemon of Docker answers here"


def made_image(environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of an image with a shell and a few programs, made of this machine's."""
    if _call(["image", "inspect", IMAGE], environ).returncode:
        _call(["import", "-", IMAGE], environ, _archive()).check_returncode()
    return IMAGE


def _archive() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(folder)
        libraries = set[str]()
        for name in PROGRAMS:
            path = shutil.which(name, path="/bin:/usr/bin")
            assert path is not None
            archive.add(os.path.realpath(path), f"bin/{name}")
            libraries |= set(re.findall(r"(/\S+) \(0x", _libraries(path)))
        for each in sorted(libraries):
            archive.add(os.path.realpath(each), each.lstrip("/"))
    return data.getvalue()


def _libraries(path: str) -> str:
    return subprocess.run(["ldd", path], capture_output=True, text=True, check=True, timeout=CALL_S).stdout


def _call(
    words: list[str], environ: Mapping[str, str], given: bytes = b"", limit_s: float = CALL_S
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["docker", *words], input=given, capture_output=True, env=dict(environ), timeout=limit_s, check=False
    )
