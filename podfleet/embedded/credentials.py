"""The random credentials of one data directory.

They are made once and kept in a file that only its owner may read. They reach the services by environment or
by file, never by a command line.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from events.runtime.clock import Ids
from events.runtime.errors import ConfigError
from events.text.key_text import letters, written
from podfleet.embedded.private_file import FILE_MODE, private_directory, replace_private

MONGO_USER: Final = "podfleet"
SECRETS_KEY: Final = "PODFLEET_SECRETS_KEY"
SECRETS_KEY_FILE: Final = "PODFLEET_SECRETS_KEY_FILE"
SECRETS_KEY_BYTES: Final = 32


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    mongo_password: str
    mongo_key: str
    s3_access_key: str
    s3_secret_key: str
    api_key: str = ""  # data directories from before there were keys lack it


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials by which the services of one data directory authenticate each other."""

    mongo_password: str = field(repr=False)
    mongo_key: str = field(repr=False)
    s3_access_key: str
    s3_secret_key: str = field(repr=False)
    api_key: str = field(repr=False)


def credentials(path: Path, ids: Ids) -> Credentials:
    """Return the credentials kept in `path`, made and kept there the first time."""
    private_directory(path.parent)
    if not path.exists():
        replace_private(path, msgspec.json.encode(_fresh(ids)).decode())
    path.chmod(FILE_MODE)  # a copied data directory may have lost the mode
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
        if not stored.api_key:
            stored = msgspec.structs.replace(stored, api_key=written("admin", letters(ids.token())))
            replace_private(path, msgspec.json.encode(stored).decode())
    except msgspec.DecodeError as error:
        raise ConfigError(
            [f"{path} cannot be read ({error}): restore it, or remove the data directory {path.parent}"]
        ) from error
    return Credentials(
        mongo_password=stored.mongo_password,
        mongo_key=stored.mongo_key,
        s3_access_key=stored.s3_access_key,
        s3_secret_key=stored.s3_secret_key,
        api_key=stored.api_key,
    )


def secrets_key_file(path: Path) -> Path:
    """Return the file of the key for secrets, made the first time: what it encrypts is lost without it."""
    private_directory(path.parent)
    if not path.exists():
        replace_private(path, base64.b64encode(os.urandom(SECRETS_KEY_BYTES)).decode() + "\n")
    path.chmod(FILE_MODE)
    return path.absolute()


def _fresh(ids: Ids) -> _Stored:
    return _Stored(
        mongo_password=ids.token(),
        mongo_key=_base64_only(ids.token() + ids.token()),
        s3_access_key=_base64_only(ids.token())[:20].upper(),
        s3_secret_key=_base64_only(ids.token()),
    )


def _base64_only(token: str) -> str:
    """Return `token` in the letters that mongod's key file and S3 keys allow."""
    return token.replace("-", "A").replace("_", "B")
