"""Fetches the files of a data set from a hub, by plain HTTP, at a pinned revision, once.

Law: a file is in the cache under its name only when it came whole. Its digest is the one that the suite
knows, else the one that it had when it came; a file with another digest is fetched again. No byte goes to an
address that the operator does not allow.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final
from urllib.parse import quote

import httpx

from events.runtime.allowed_addresses import AddressRefused, Guard
from stages.adapters.time_limit import run_within
from stages.kinds.benchmark.suites.data.sources import DataRefused, DataSources, NeedsSetup
from stages.kinds.benchmark.suites.item import Source

FILE_BYTES_MAX: Final = 2 << 30
FILE_S: Final = 3_600.0
SILENCE_S: Final = 60.0
TRIES: Final = 3
WAIT_S: Final = 2.0
REDIRECTS_MAX: Final = 5
CHUNK_BYTES: Final = 1 << 20


class _Interrupted(Exception):
    """A download did not come to its end; it may next time."""


def fetched(source: Source, sources: DataSources) -> list[Path]:
    """Return the files of a data set in the cache, fetched where they are missing.

    Raises `NeedsSetup` where a person has to act, `DataRefused` where the hub has other files than it should.
    """
    return [_file(source, file, sources) for file in source.files]


def _file(source: Source, file: str, sources: DataSources) -> Path:
    folder = sources.cache / source.name.replace("/", "--") / source.revision
    path = folder / file
    known = source.sha256.get(file) or _noted(path)
    if path.is_file() and known and _digest(path) == known:
        return path
    if not sources.hub:
        raise NeedsSetup(f"{source.name} is not on this pod, and nothing may be fetched: {_by_hand(source)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        digest = _downloaded(source, file, part, sources)
        if source.sha256.get(file, digest) != digest:
            raise DataRefused(f"{source.name}: {file} has another digest than this suite expects")
        _note(path, digest)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _downloaded(source: Source, file: str, part: Path, sources: DataSources) -> str:
    url = f"{sources.hub.rstrip('/')}/datasets/{source.name}/resolve/{source.revision}/{quote(file)}"
    trouble = ""
    for tried in range(TRIES):
        if tried and sources.stop.wait(WAIT_S * tried):
            break
        try:
            return run_within(FILE_S, partial(_get, url, part, sources, source), sources.stop)
        except AddressRefused as error:
            raise NeedsSetup(f"{source.name} is not fetched: {error}; {_by_hand(source)}") from error
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, _Interrupted) as error:
            trouble = str(error) or type(error).__name__
    raise NeedsSetup(f"{source.name} cannot be fetched ({trouble}): {_by_hand(source)}")


async def _get(url: str, part: Path, sources: DataSources, source: Source) -> str:
    headers = {"Accept-Encoding": "identity"} | (
        {"Authorization": f"Bearer {sources.token}"} if sources.token else {}
    )
    guard = Guard(sources.egress)

    async def checked(request: httpx.Request) -> None:
        if url.startswith("https:") and request.url.scheme != "https":
            raise DataRefused(f"{source.name}: the hub leads to an address without TLS")
        await guard(request)

    async with (
        httpx.AsyncClient(
            timeout=SILENCE_S,
            follow_redirects=True,
            max_redirects=REDIRECTS_MAX,
            event_hooks={"request": [checked]},
        ) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        _check(response, source)
        return await _written(response, part, source)


def _check(response: httpx.Response, source: Source) -> None:
    status = response.status_code
    if status in (401, 403):
        raise NeedsSetup(f"{source.name} is not open to everybody: {source.access or _by_hand(source)}")
    if status in (404, 410):
        raise DataRefused(
            f"{source.name}: the hub has no {response.url.path.rpartition('/')[2]} at this revision"
        )
    if status != httpx.codes.OK:
        raise _Interrupted(f"the hub answers {status}")
    length = response.headers.get("Content-Length", "")
    if length.isascii() and length.isdigit() and len(length) < 20 and int(length) > FILE_BYTES_MAX:
        raise DataRefused(f"{source.name}: a file has more than {FILE_BYTES_MAX} bytes")


async def _written(response: httpx.Response, part: Path, source: Source) -> str:
    digest = hashlib.sha256()
    count = 0
    with part.open("wb") as file:
        async for chunk in response.aiter_raw(CHUNK_BYTES):
            count += len(chunk)
            if count > FILE_BYTES_MAX:
                raise DataRefused(f"{source.name}: a file has more than {FILE_BYTES_MAX} bytes")
            if shutil.disk_usage(part.parent).free < 2 * len(chunk) + (64 << 20):
                raise NeedsSetup(f"{source.name} does not fit: the disk of {part.parent} is full")
            digest.update(chunk)
            file.write(chunk)
        os.fsync(file.fileno())
    if response.headers.get("Content-Length", str(count)) != str(count):
        raise _Interrupted("the hub's answer was cut off")
    return digest.hexdigest()


def _by_hand(source: Source) -> str:
    return f"put its files ({', '.join(source.files)}) into a folder of PODFLEET_DATASETS"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _noted(path: Path) -> str | None:
    try:
        return _note_of(path).read_text("ascii")[:64]
    except (OSError, UnicodeDecodeError):
        return None


def _note(path: Path, digest: str) -> None:
    part = path.with_name(f".{path.name}.{token_hex(8)}.sha256")
    part.write_text(digest, "ascii")
    os.replace(part, _note_of(path))
