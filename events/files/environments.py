"""What the Python environment of a job is made of, and the key by which a pod keeps it; pure.

Law: the key stands for all code that runs while an environment is made. So only what an index or an address
has is installed: a line that names a folder or a file of the pod is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from events.runtime.errors import Rejected

LOCK: Final = "uv.lock"
PROJECT: Final = "pyproject.toml"
REQUIREMENTS: Final = "requirements.txt"
FORM: Final = 1  # of what is made; a change makes every environment anew
BYTES_MAX: Final = 16 << 20  # of all files together
FILES_MAX: Final = 32
CODE: Final = "ENVIRONMENT_FAILED"

Source = Literal["lock", "project", "requirements"]
Read = Callable[[str], bytes | None]  # of a relative path; None where there is no such plain file

_NAMED: Final = re.compile(r"[A-Za-z0-9][\w.-]*\s*(\[[\w\s,.-]*\])?\s*((@\s*(?P<at>.*))|\(?\s*[<>=!~].*)?")
_ADDRESS: Final = re.compile(r"(git\+|hg\+|svn\+|bzr\+)?(https?|ssh)://[^\s/]+/?\S*")
_WEB: Final = re.compile(r"https?://\S+")
_LOCAL: Final = re.compile(r"\A\s*(/|~|\.\.?(/|\Z))|file:|@\s*[./~]", re.IGNORECASE)
# In a lock, a package that lies in a folder or a file; "." is the project itself, which is not installed.
_LOCAL_IN_LOCK: Final = re.compile(
    rb"""\b(path|registry|url|git|find-links)\s*=\s*["'](/|~|\.\.?/|file:)"""
    rb"""|\b(directory|editable|virtual)\s*=\s*["'](?!\.["'])"""
)
_WITH_ADDRESS: Final = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links")
_WITH_FILE: Final = ("-r", "--requirement", "-c", "--constraint")
_WITH_VALUE: Final = ("--no-binary", "--only-binary", "--trusted-host")
_ALONE: Final = ("--pre", "--prefer-binary", "--require-hashes", "--no-index")


@dataclass(frozen=True, slots=True)
class Ingredients:
    """The files that an environment is made of, by their paths, and which of them leads."""

    source: Source
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """The checksum of all of it."""
        parts = [self.source, *sorted((name, _sha256(data)) for name, data in self.files.items())]
        return _sha256(json.dumps(parts).encode())


def read_ingredients(read: Read) -> Ingredients | None:
    """Return what a working folder says of its environment; None where it says nothing.

    A lock counts before a project without one, that before a list of requirements. Raises `Rejected` for what
    cannot be meant, or names what is no package of an index.
    """
    project = read(PROJECT)
    if project is not None and _is_project(_bounded(PROJECT, project)):
        _check_project(project)
        lock = read(LOCK)
        if lock is None:
            return Ingredients("project", {PROJECT: project})
        if found := _LOCAL_IN_LOCK.search(_bounded(LOCK, lock)):
            raise _refused(LOCK, _line_of(lock, found.start()), found[0].decode(errors="replace"))
        return Ingredients("lock", {PROJECT: project, LOCK: lock})
    files: dict[str, bytes] = {}
    _collect(REQUIREMENTS, read, files)
    return Ingredients("requirements", files) if files else None


def environment_key(digest: str, python: str, settings: Mapping[str, str], options: list[str]) -> str:
    """Return the key of what a Python of a pod makes of ingredients, with its settings of indices."""
    return _sha256(json.dumps([FORM, digest, python, sorted(settings.items()), options]).encode())


def _is_project(data: bytes) -> bool:
    """Return whether a file describes packages; many have settings of tools alone."""
    try:
        found = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise Rejected(CODE, f"{PROJECT} cannot be read: {error}") from error
    return isinstance(found.get("project"), dict)


def _check_project(data: bytes) -> None:
    found = tomllib.loads(data.decode())
    tool = found.get("tool", {}).get("uv", {}) if isinstance(found.get("tool"), dict) else {}
    for where, part in (
        ("project", found["project"]),
        ("dependency-groups", found.get("dependency-groups")),
        ("build-system", found.get("build-system")),
    ):
        for text in _texts(part):
            if re.search(r"file:|@\s*[./~]", text, re.IGNORECASE):
                raise _refused(PROJECT, where, text)
    for text in _texts(tool):
        if _LOCAL.search(text):
            raise _refused(PROJECT, "tool.uv", text)
    sources = tool.get("sources") if isinstance(tool, dict) else None
    for name, source in sources.items() if isinstance(sources, dict) else ():
        for each in source if isinstance(source, list) else [source]:
            if isinstance(each, dict) and {"path", "workspace"} & each.keys():
                raise _refused(PROJECT, "tool.uv.sources", name)


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as table:
                waiting += [*table.values()]
            case list() as items:
                waiting += items


def _collect(path: str, read: Read, files: dict[str, bytes]) -> None:
    """Add a list of requirements, and those that it names."""
    data = read(path)
    if data is None:
        if path == REQUIREMENTS:
            return
        raise Rejected(CODE, f"{path[:200]} is named by {REQUIREMENTS}, and is no file of the working folder")
    files[path] = _bounded(path, data)
    if len(files) > FILES_MAX or sum(map(len, files.values())) > BYTES_MAX:
        raise Rejected(
            CODE, f"{REQUIREMENTS}: {FILES_MAX} files of {BYTES_MAX >> 20} MiB in all are the most"
        )
    try:
        lines = data.decode("utf-8-sig").replace("\\\r\n", " ").replace("\\\n", " ").splitlines()
    except UnicodeDecodeError as error:
        raise Rejected(CODE, f"{path} is no text in UTF-8") from error
    for number, line in enumerate(lines, 1):
        words = re.sub(r"(^|\s)#.*", "", line).strip()
        if not words:
            continue
        if named := _named_file(words):
            other = _beside(path, named)
            if other is None:
                raise _refused(path, number, words)
            if other not in files:
                _collect(other, read, files)
        elif not _is_fit(words):
            raise _refused(path, number, words)


def _option(words: str) -> tuple[str, str]:
    name, _, value = words.replace("=", " ", 1).partition(" ") if words.startswith("--") else _short(words)
    return name, value.strip()


def _short(words: str) -> tuple[str, str, str]:
    return words[:2], "", words[2:].removeprefix("=")


def _named_file(words: str) -> str | None:
    if not words.startswith("-"):
        return None
    name, value = _option(words)
    return value if name in _WITH_FILE else None


def _beside(path: str, named: str) -> str | None:
    """Return the path of a file that another one names; None where it leads out of the folder."""
    parts: list[str] = [*PurePosixPath(path).parent.parts]
    if not named or named.startswith(("/", "~")) or "\\" in named or "\0" in named or "://" in named:
        return None
    for part in PurePosixPath(named).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            return None
    return "/".join(parts) or None


def _is_fit(words: str) -> bool:
    """Return whether a line names packages of an index or an address, or an option that does no more."""
    if words.startswith("-"):
        name, value = _option(words)
        if name in _WITH_ADDRESS:
            return _WEB.fullmatch(value) is not None
        return (name in _WITH_VALUE and bool(value)) or (name in _ALONE and not value)
    wanted = re.split(r"\s--|;", words, maxsplit=1)[0].strip()
    if found := _NAMED.fullmatch(wanted):
        return found["at"] is None or _ADDRESS.fullmatch(found["at"].strip()) is not None
    return _ADDRESS.fullmatch(wanted) is not None


def _bounded(path: str, data: bytes) -> bytes:
    if len(data) > BYTES_MAX:
        raise Rejected(CODE, f"{path} has {len(data):,} bytes, and {BYTES_MAX >> 20} MiB are the most")
    return data


def _refused(path: str, where: int | str, words: str) -> Rejected:
    place = f"line {where}" if isinstance(where, int) else where
    return Rejected(
        CODE,
        f"{path}, {place}: {words[:200]!r} names no package of an index or an address (https, git+https). "
        "Code of the working folder needs no installing: import it, or name its folder in PYTHONPATH",
    )


def _line_of(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
