"""Lists the files of a folder that become a tree: what git would take, and what patterns add and leave out.

Patterns are those of `.gitignore`. Law: a link is followed to a file inside of the folder only; whatever else
is no plain file is refused by its name, so that nothing is left out in silence.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from events.files.paths import BadPath, RunPath
from events.files.trees import FILES_MAX

IGNORE_FILE: Final = ".podfleetignore"
IGNORE_BYTES_MAX: Final = 1 << 20
GIT_S: Final = 60.0
SHOWN_MAX: Final = 10
SHOWN_CHARS_MAX: Final = 300
ENTRIES_MAX: Final = 10 * FILES_MAX  # looked at in a folder, most of which patterns may leave out


class Unpackable(Exception):
    """A folder cannot become a tree; the text says what is in the way, and what to do."""


def listed(folder: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> dict[RunPath, str]:
    """Return the files of a folder by their paths in the tree: where in the folder each lies.

    Raises `Unpackable`.
    """
    if not folder.is_dir():
        raise Unpackable(f"{folder} is no folder")
    ignored = ignored_in(folder, exclude)
    added = GitIgnoreSpec.from_lines(include)
    names = _of_git(folder)
    if names is None:
        names = list(_walk(folder))
    elif include:
        names = [*names, *(name for name in _walk(folder) if added.match_file(name))]
    wanted = [name for name in dict.fromkeys(names) if not ignored.match_file(name)]
    if len(wanted) > FILES_MAX:
        raise Unpackable(
            f"{folder} has {len(wanted):,} files, and {FILES_MAX:,} are the most: leave some out by "
            f"{IGNORE_FILE}, or put them into an archive"
        )
    return _plain(folder, wanted)


def ignored_in(folder: Path, exclude: Sequence[str]) -> GitIgnoreSpec:
    """Return what is left out of a folder. Raises `Unpackable`."""
    try:
        with (folder / IGNORE_FILE).open("rb") as file:
            content = file.read(IGNORE_BYTES_MAX + 1)
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise Unpackable(f"{folder / IGNORE_FILE} cannot be read: {error.strerror}") from error
    if len(content) > IGNORE_BYTES_MAX:
        raise Unpackable(f"{folder / IGNORE_FILE} has more than {IGNORE_BYTES_MAX:,} bytes")
    try:
        return GitIgnoreSpec.from_lines([*content.decode(errors="replace").splitlines(), *exclude])
    except ValueError as error:
        raise Unpackable(f"a pattern of {IGNORE_FILE} or --exclude is wrong: {error}") from error


def _of_git(folder: Path) -> list[str] | None:
    """Return what git would take, None outside of a repository. Raises `Unpackable` where git fails."""
    if not any((above / ".git").exists() for above in (folder.resolve(), *folder.resolve().parents)):
        return None
    git = shutil.which("git")
    if git is None:
        raise Unpackable(f"{folder} is in a git repository, and git is not installed: install it")
    command = [git, "-c", "core.fsmonitor=false", "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unpackable(f"git cannot list {folder}: {error}"[:SHOWN_CHARS_MAX]) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Unpackable(f"git cannot list {folder}: {said}"[:SHOWN_CHARS_MAX])
    names: list[str] = []
    for each in done.stdout.split(b"\0"):
        name = os.fsdecode(each).rstrip("/")
        place = folder / name
        if name and place.is_dir() and not place.is_symlink():  # a repository inside of this one
            names.extend(f"{name}/{below}" for below in _of_git(place) or ())
        elif name and os.path.lexists(place):  # a file that git knows may be deleted
            names.append(name)
    return names


def _walk(folder: Path) -> Iterator[str]:
    """Yield everything in a folder that is no folder itself, git's own files left out."""

    def unreadable(error: OSError) -> None:
        raise Unpackable(f"{error.filename} cannot be listed: {error.strerror}")

    seen = 0
    for above, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if os.path.islink(os.path.join(above, name))]
        below = os.path.relpath(above, folder)
        for name in (*files, *links):
            seen += 1
            if seen > ENTRIES_MAX:
                raise Unpackable(f"{folder} has more than {ENTRIES_MAX:,} files: push a folder inside of it")
            yield name if below == "." else f"{below}/{name}".replace(os.sep, "/")


def _plain(folder: Path, names: Iterable[str]) -> dict[RunPath, str]:
    """Return where each file lies. Raises `Unpackable` with the names of those that are no plain files."""
    root = folder.resolve()
    found: dict[RunPath, str] = {}
    wrong: list[str] = []
    for name in names:
        try:
            path, place = RunPath(name), folder / name
            if place.is_symlink():
                target = place.resolve(strict=True)
                if not target.is_relative_to(root):
                    raise OSError(0, "a link that leads out of the folder")
                if target.is_dir():
                    raise OSError(0, "a link to a folder")
                found[path] = str(RunPath(target.relative_to(root).as_posix()))
            else:
                found[path] = name
            if not stat.S_ISREG(os.stat(root / found[path]).st_mode):
                raise OSError(0, "no plain file")
            if not os.access(root / found[path], os.R_OK):
                raise OSError(0, "a file that you may not read")
        except BadPath as error:
            wrong.append(error.message)
        except (OSError, RuntimeError) as error:  # links in a circle are a RuntimeError in older Pythons
            wrong.append(f"{name!r} is {getattr(error, 'strerror', None) or error}")
    if wrong:
        more = f"; and {len(wrong) - SHOWN_MAX} more" if len(wrong) > SHOWN_MAX else ""
        shown = "; ".join(wrong[:SHOWN_MAX]) + more
        raise Unpackable(
            f"a tree holds plain files, and links to files inside of it: {shown}. "
            f"Remove them, or leave them out by {IGNORE_FILE}"
        )
    return found
