"""What git knows of a folder that is sent: its commit, and in what the folder differs from that.

Law: no address has credentials in it, and no difference is of a file that is not sent.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pathspec import GitIgnoreSpec

from podfleet.client.trees.listing import GIT_S, ignored_in

DIFF: Final = "diff.patch"
DIFF_BYTES_MAX: Final = 256 * 1024
NAMES_MAX: Final = 2_000  # of files that differ, in one command
TEXT_CHARS_MAX: Final = 250
ADDRESS_CHARS_MAX: Final = 500
_BY_SSH: Final = re.compile(r"[\w.-]+@[\w.-]+:[^\s:?#]+")
_COMMIT: Final = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit of a folder; `diff` is empty where no file of it that is sent differs."""

    commit: str
    branch: str
    remote: str
    is_dirty: bool
    diff: bytes

    def told(self) -> dict[str, Any]:
        """Return it as a specification has it."""
        found = {"commit": self.commit, "branch": self.branch, "remote": self.remote}
        return {**{name: each for name, each in found.items() if each}, "is_dirty": self.is_dirty}


def commit_of(folder: Path) -> Commit | None:
    """Return the commit of a folder, None where git has none to tell."""
    commit = _line(folder, "rev-parse", "--verify", "-q", "HEAD")
    if not _COMMIT.fullmatch(commit):
        return None
    ignored = ignored_in(folder, ())
    changed = _names(folder, ignored, "diff", "HEAD", "--name-only", "-z", "--relative", "--no-renames")
    added = _names(folder, ignored, "ls-files", "-o", "--exclude-standard", "-z")
    return Commit(
        commit,
        _line(folder, "symbolic-ref", "--short", "-q", "HEAD")[:TEXT_CHARS_MAX],
        without_credentials(_line(folder, "remote", "get-url", "origin")),
        bool(changed or added),
        _diff(folder, changed) if changed else b"",
    )


def without_credentials(address: str) -> str:
    """Return the address of a repository without what lets one in; empty for a folder of this machine."""
    if _BY_SSH.fullmatch(address) and len(address) <= ADDRESS_CHARS_MAX:
        return address
    try:
        parts = urlsplit(address)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    if parts.scheme not in ("https", "http", "ssh", "git") or not host:
        return ""
    user = f"{parts.username}@" if parts.scheme == "ssh" and parts.username else ""
    found = f"{parts.scheme}://{user}{host}{port}{parts.path}"
    return found if len(found) <= ADDRESS_CHARS_MAX else ""


def _names(folder: Path, ignored: GitIgnoreSpec, *words: str) -> list[str]:
    """Return the files that a command names, less those that are not sent."""
    found = _git(folder, *words).decode(errors="surrogateescape").split("\0")
    return [name for name in found if name and not ignored.match_file(name)]


def _diff(folder: Path, names: Sequence[str]) -> bytes:
    """Return the differences of files, of much the beginning."""
    how = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--relative", "--")
    found = _git(folder, *how, *names[:NAMES_MAX], most=DIFF_BYTES_MAX + 1)
    if len(found) <= DIFF_BYTES_MAX and len(names) <= NAMES_MAX:
        return found
    last = found[:DIFF_BYTES_MAX].rfind(b"\n") + 1
    return found[:last] + b"[... the rest is left out ...]\n"


def _line(folder: Path, *words: str) -> str:
    text = _git(folder, *words).decode(errors="replace").strip()
    return text if text.isprintable() else ""


def _git(folder: Path, *words: str, most: int = 1 << 24) -> bytes:
    """Return what git prints, the beginning of it; nothing where it fails."""
    git = shutil.which("git")
    if git is None:
        return b""
    command = [git, "--literal-pathspecs", "-c", "core.fsmonitor=false", *words]
    try:
        with subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            timer = _ending(process)
            try:
                found = process.stdout.read(most)
                is_cut = len(found) == most
                process.kill() if is_cut else process.wait()
            finally:
                timer.cancel()
    except OSError:
        return b""
    return found if is_cut or process.returncode == 0 else b""


def _ending(process: subprocess.Popen[bytes]) -> threading.Timer:
    """Return what ends a process that takes too long."""
    timer = threading.Timer(GIT_S, process.kill)
    timer.daemon = True
    timer.start()
    return timer
