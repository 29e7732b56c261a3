"""SQLite files whose commits survive a power cut, owned by one process at a time."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from events.runtime.errors import ConfigError, Transient

T = TypeVar("T")


def lock_file(path: Path) -> int:
    """Return the descriptor of a lock held until it is closed. Raises `ConfigError` when it is taken."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError([f"the data directory {folder} cannot be written: {error.strerror}"]) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise ConfigError([f"another worker uses the data directory {folder}: give each its own"]) from error
    return handle


def open_database(
    path: Path, schema: str, *, version: int, upgrades: Mapping[int, str]
) -> sqlite3.Connection:
    """Open or create a database that only its owner may read; `upgrades` lead from one version to the next.

    Raises `ConfigError` when it cannot be used.
    """
    try:
        # Before SQLite would make it readable for all; its side files take the mode over.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise ConfigError([f"{path} cannot be opened: {error}"]) from error
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found == 0:
            db.executescript(f"BEGIN; {schema} PRAGMA user_version = {version}; COMMIT")
        while found in upgrades:
            db.executescript(f"BEGIN; {upgrades[found]} PRAGMA user_version = {found + 1}; COMMIT")
            found += 1
    except sqlite3.Error as error:
        db.close()
        raise ConfigError([f"{path} cannot be used: {_advice(error)}"]) from error
    if found not in (0, version):
        db.close()
        raise ConfigError([f"{path} has schema {found}, not {version}: drain it with its own version"])
    return db


def commit(db: sqlite3.Connection, step: Callable[[sqlite3.Connection], T]) -> T:
    """Run `step` in one transaction. Raises `Transient` with DISK_FULL when the disk takes no more."""
    try:
        db.execute("BEGIN IMMEDIATE")
        result = step(db)
        db.execute("COMMIT")
    except BaseException as error:
        # SQLite may have rolled back by itself, and a disk that is full may refuse even this.
        with suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error) and (named := _disk_error(error)) is not None:
            raise named from error
        raise
    return result


def _advice(error: sqlite3.Error) -> str:
    full = _disk_error(error)
    # What was said and not delivered lies in the file: where the disk is to blame, it must stay.
    return (
        f"{error}; move it away to start afresh"
        if full is None
        else f"{full.message}; make room, and start again"
    )


def _disk_error(error: sqlite3.Error) -> Transient | None:
    code = getattr(error, "sqlite_errorcode", 0)
    # A quota that is used up comes as a failed write, not as a full disk.
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return Transient("DISK_FULL", f"the disk of the data directory is full: {error}")
    if code & 0xFF == sqlite3.SQLITE_IOERR:
        return Transient("DISK_FAILED", f"the disk of the data directory fails: {error}")
    return None
