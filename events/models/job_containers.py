"""Containers of jobs: the words of a client that run, look at and end one, and what it says of images; pure.

Law: a program in a container has no more than one in the confinement of a job: its own user, no capability,
no way to gain any, the folders of its run, and what it reads, read-only. No variable is an argument, and none
is in the environment of the client, which would read it. What runs is the image that was looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from events.models.containers import label_of

SETTING: Final = "PODFLEET_CONTAINERS"
LABEL: Final = "containers"  # of a pod that runs jobs in containers
HAS: Final = "yes"
PRINTED: Final = "container.printed"  # the pipe in the folder of a run to which the program prints
CLIENTS: Final = ("docker", "podman")
SLOT_LABEL: Final = "podfleet.slot"
HOST: Final = "host"
WORDS_CHARS: Final = 500
LINE_BYTES_MAX: Final = 60_000  # the clients read lines of 64 KiB

_NAME: Final = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_HOST: Final = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
_IMAGE: Final = re.compile(
    rf"({_HOST}/)?{_NAME}(/{_NAME})*(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?P<digest>@sha256:[0-9a-f]{{64}})?",
    re.ASCII,
)
_IDENTITY: Final = re.compile(r"(sha256:)?([0-9a-f]{64})")
# What clients say of a registry that is away, of images that there are not, and of what they may not have.
_AWAY: Final = (
    *("dial tcp", "no such host", "connection refused", "connection reset", "timeout", "timed out", "eof"),
    *("tls handshake", "server misbehaving", "temporary failure", "network is unreachable"),
    *(
        "toomanyrequests",
        "too many requests",
        "received unexpected http status: 5",
        "503 service unavailable",
    ),
    *("502 bad gateway", "504 gateway", "500 internal server error", "no route to host"),
)
_NO_DAEMON: Final = ("cannot connect to the docker daemon", "is the docker daemon running", "docker.sock")
_NO_ROOM: Final = ("no space left on device",)


def is_image(text: str) -> bool:
    """Return whether this names an image with a tag or a digest."""
    found = _IMAGE.fullmatch(text)
    return found is not None and len(text) <= WORDS_CHARS and bool(found["tag"] or found["digest"])


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContainer:
    """The container of a job: `image` by its identity, `user` the number of who owns the folder of the run.

    `read_only` and `writable` are folders of the pod, which have the same places in the container.
    """

    name: str
    pod: str
    slot: str
    image: str
    user: int
    folder: str
    variables: str  # the file with them
    writable: Sequence[str]
    read_only: Sequence[str] = ()
    devices: Sequence[str] | None = None  # names of GPUs; None for none
    tasks_max: int = 4_096
    memory_bytes: int | None = None

    def words(self, client: str, command: Sequence[str]) -> list[str]:
        """Return the words that run `command` in it, and stay until it ends."""
        mounts = [
            *(f"type=bind,source={each},target={each}" for each in self.writable),
            *(f"type=bind,source={each},target={each},readonly" for each in self.read_only),
        ]
        return [
            *(client, "run", "--name", self.name, "--pull", "never", "--init"),
            *("--label", label_of(self.pod), "--label", f"{SLOT_LABEL}={self.slot}"),
            *("--user", f"{self.user}:{self.user}", "--cap-drop", "ALL"),
            *("--security-opt", "no-new-privileges", "--ulimit", "core=0"),
            *("--network", HOST, "--log-driver", "none"),
            *("--pids-limit", str(self.tasks_max)),
            *self._memory(),
            *self._gpus(),
            *(word for each in mounts for word in ("--mount", each)),
            *("--env-file", self.variables, "--workdir", self.folder, "--entrypoint", ""),
            self.image,
            *command,
        ]

    def _memory(self) -> list[str]:
        """Return the options of its memory, without any of swap; half of it may be shared."""
        if self.memory_bytes is None:
            return []
        most = str(self.memory_bytes)
        return ["--memory", most, "--memory-swap", most, "--shm-size", str(self.memory_bytes // 2)]

    def _gpus(self) -> list[str]:
        if self.devices is None:
            return []
        return ["--gpus", f'"device={",".join(self.devices)}"' if self.devices else "all"]


def variables_file(variables: Mapping[str, str]) -> bytes:
    """Return variables as a client reads them. Raises `ValueError` for a value that it cannot read."""
    lines = []
    for name, value in variables.items():
        line = f"{name}={value}".encode(errors="replace")
        if "\n" in value or "\r" in value or "\0" in value:
            raise ValueError(f"{name} has several lines, and a variable of a container has one: use a file")
        if len(line) > LINE_BYTES_MAX:
            raise ValueError(f"{name} has more than {LINE_BYTES_MAX:,} bytes: use a file")
        lines.append(line)
    return b"".join(line + b"\n" for line in lines)


def slot_listing(client: str, slot: str) -> list[str]:
    """Return the words that list the containers of a slot."""
    return [client, "ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={SLOT_LABEL}={slot}"]


def image_words(client: str, image: str) -> list[str]:
    """Return the words that describe an image of the pod as JSON."""
    return [client, "image", "inspect", image]


def pulling_words(client: str, image: str) -> list[str]:
    """Return the words that fetch an image."""
    return [client, "pull", "--quiet", image]


@dataclass(frozen=True, slots=True)
class Image:
    """An image of this pod: its identity there, and its digest in the registry, empty where it has none."""

    identity: str
    digest: str = ""

    @property
    def told(self) -> str:
        """What is told of it: the same everywhere where it comes from a registry."""
        return self.digest or self.identity


def read_image(answer: bytes) -> Image | None:
    """Return what a client says of an image, None where it says anything else."""
    try:
        rows = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    row: Any = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(row, dict):
        return None
    found = _IDENTITY.fullmatch(str(row.get("Id")))
    if found is None:
        return None
    listed = row.get("RepoDigests")
    digests = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    digest = next((each for each in digests if "@" in each and is_image(each)), "")
    return Image(f"sha256:{found[2]}", digest)


def pull_failure(said: str) -> tuple[str, str]:
    """Return the code of a failed pull, and what is said of it: whose fault it is follows from the code."""
    low = said.lower()
    line = next((each.strip() for each in reversed(said.splitlines()) if each.strip()), "it says nothing")
    words = line[:WORDS_CHARS]
    if _has(low, _NO_ROOM):
        return "DISK_FULL", f"there is no room for the image: {words}"
    if _has(low, _NO_DAEMON):
        return "NOT_AVAILABLE", f"the pod's container runtime does not answer: {words}"
    if _has(low, _AWAY):
        return "REGISTRY_UNREACHABLE", f"the registry of the image cannot be reached: {words}"
    return "NO_IMAGE", f"the image cannot be had: {words}"


def _has(text: str, words: Iterable[str]) -> bool:
    return any(each in text for each in words)
