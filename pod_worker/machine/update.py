"""Installs the wheel that the control plane serves, with its packages, into the environment of this worker.

Law: what cannot be installed is logged, and the version that is here goes on.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec

from events.delivery.control_plane_client import ControlPlane, control_plane_client
from events.runtime.clock import SystemClock
from events.runtime.errors import Transient

log = logging.getLogger(__name__)

NAME: Final = "podfleet"
ASK_S: Final = 20.0
INSTALL_S: Final = 1_200.0  # an environment with PyTorch is gigabytes
SAID_CHARS_MAX: Final = 2_000  # of what pip says in the end
OPTIONS: Final = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-input")


class Served(msgspec.Struct, frozen=True):
    """The wheel that a control plane serves: its file below `/install/`, and its SHA-256 in hexadecimal."""

    wheel: Annotated[str, msgspec.Meta(pattern=r"\Apodfleet-[0-9A-Za-z.+!]{1,64}-py3-none-any\.whl\Z")]
    version: Annotated[str, msgspec.Meta(max_length=64)]
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class _Folder(msgspec.Struct, frozen=True):
    editable: bool = False


class _Archive(msgspec.Struct, frozen=True):
    hash: str = ""
    hashes: dict[str, str] = {}


class _Noted(msgspec.Struct, frozen=True):
    dir_info: _Folder = _Folder()
    archive_info: _Archive = _Archive()


def is_due(served: Served, version: str, direct_url: str | None) -> bool:
    """Say whether another wheel is installed; `direct_url` is what pip noted of ours (PEP 610).

    A checkout that is edited in place is left alone. Where no hash is known, the versions are compared.
    """
    try:
        noted = msgspec.json.decode(direct_url or "{}", type=_Noted)
    except msgspec.MsgspecError:
        noted = _Noted()
    if noted.dir_info.editable:
        return False
    known = noted.archive_info.hash or f"sha256={noted.archive_info.hashes.get('sha256', '')}"
    return served.version != version if known == "sha256=" else known != f"sha256={served.sha256}"


def command_of(python: str, url: str, served: Served, extras: str, *, has_torch: bool) -> list[str]:
    """Return the command that installs the wheel with its packages, each by its hash."""
    query = {"extras": extras, **({"torch": "own"} if has_torch else {})}
    lock = f"{url}/install/requirements.txt?{urlencode(query)}"
    wheel = f"{NAME} @ {url}/install/{served.wheel}#sha256={served.sha256}"
    return [python, "-m", "pip", "install", "--quiet", *OPTIONS, "-r", lock, wheel]


def update(url: str, extras: str, environ: Mapping[str, str], secrets: Sequence[str]) -> bool:
    """Install what the control plane at `url` serves, where it is another wheel; say whether that was done.

    pip gets `environ` without the secrets. What does not work is logged.
    """
    try:
        with control_plane_client(url, None) as client:
            answer = ControlPlane(client, SystemClock()).send("GET", "/install/wheel.json", timeout_s=ASK_S)
        served = answer.read(Served)
        ours = distribution(NAME)
        if not is_due(served, ours.version, ours.read_text("direct_url.json")):
            return False
        log.info("update.begins", extra={"wheel": served.wheel, "extras": extras})
        has_torch = sees_packages_of_the_system(Path(sys.prefix))
        _install(
            command_of(sys.executable, url, served, extras, has_torch=has_torch), without(environ, secrets)
        )
    except Transient as error:
        log.warning("update.failed", extra={"code": error.code, "why": error.message})
        return False
    log.info("update.ended", extra={"wheel": served.wheel})
    return True


def sees_packages_of_the_system(prefix: Path) -> bool:
    """Say whether an environment was made with `--system-site-packages`: then PyTorch is the machine's."""
    try:
        lines = (prefix / "pyvenv.cfg").read_text().splitlines()
    except (OSError, ValueError):
        return False
    return "include-system-site-packages=true" in (each.replace(" ", "").lower() for each in lines)


def without(environ: Mapping[str, str], secrets: Sequence[str]) -> dict[str, str]:
    """Return an environment without what holds a secret: pip needs none of ours."""
    return {name: value for name, value in environ.items() if not any(each in value for each in secrets)}


def _install(command: Sequence[str], environ: Mapping[str, str]) -> None:
    try:
        # a session of its own: a terminal's Ctrl-C between two packages would leave neither version whole
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=INSTALL_S, check=False, start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Transient("update_failed", f"pip did not end: {error}") from error
    if done.returncode != 0:
        raise Transient("update_failed", done.stdout.decode(errors="replace")[-SAID_CHARS_MAX:])
