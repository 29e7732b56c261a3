"""Containers of engines: the words of Docker's client that start, look at and remove them; pure.

Law: a container has the network and the shared memory of its pod, a label by which its pod finds it again,
and of the environment only what is named. No value of a variable is an argument, which everybody could read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PROGRAM: Final = "docker"
LABEL: Final = "podfleet.pod"
UNKNOWN: Final = "unknown"  # the pod of an engine that no worker started


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container to start: its name, its pod, its image, and what of this pod it may have.

    `variables` are names; their values come from the environment of the client. `read_only` and `writable`
    are folders and files of the pod, which have the same places in the container.
    """

    name: str
    pod: str
    image: str
    variables: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    has_gpus: bool = False
    devices: tuple[str, ...] = ()  # names of the GPUs, where it shall not have all
    memory_bytes: int | None = None
    cores: int | None = None

    def words(self, command: Sequence[str]) -> list[str]:
        """Return the words that run `command` in it, and stay until it ends."""
        mounts = [
            *(f"{each}:{each}:ro" for each in self.read_only),
            *(f"{each}:{each}" for each in self.writable),
        ]
        return [
            *(PROGRAM, "run", "--name", self.name, "--label", label_of(self.pod)),
            *("--network", "host", "--ipc", "host", "--entrypoint", ""),
            *self._gpus(),
            *self._bounds(),
            *(word for each in mounts for word in ("--volume", each)),
            *(word for each in self.variables for word in ("--env", each)),
            self.image,
            *command,
        ]

    def _gpus(self) -> list[str]:
        """Return the options of its GPUs; several names stand in quotes, which the client itself reads."""
        if not self.has_gpus:
            return []
        return ["--gpus", f'"device={",".join(self.devices)}"' if self.devices else "all"]

    def _bounds(self) -> list[str]:
        """Return the options of its memory, without any of swap, and of its cores."""
        memory = str(self.memory_bytes)
        return [
            *(("--memory", memory, "--memory-swap", memory) if self.memory_bytes else ()),
            *(("--cpus", str(self.cores)) if self.cores else ()),
        ]


@dataclass(frozen=True, slots=True)
class Inspected:
    """What Docker says of a container: whether it runs, how it ended, and what it was given."""

    is_running: bool
    exit_code: int
    is_out_of_memory: bool
    network: str
    ipc: str
    pod: str
    environment: Mapping[str, str] = field(default_factory=dict)
    has_started: bool = True


def label_of(pod: str) -> str:
    """Return the label of the containers of a pod."""
    return f"{LABEL}={pod or UNKNOWN}"


def listing_words(*, pod: str | None = None, name: str | None = None, client: str = PROGRAM) -> list[str]:
    """Return the words that list the ids of containers that there are, also of those that have ended."""
    narrowed = f"label={label_of(pod)}" if pod is not None else f"name=^{name}$"
    return [client, "ps", "--all", "--quiet", "--no-trunc", "--filter", narrowed]


def inspecting_words(name: str, client: str = PROGRAM) -> list[str]:
    """Return the words that describe a container as JSON."""
    return [client, "inspect", "--type", "container", name]


def logging_words(name: str) -> list[str]:
    """Return the words that print all that a container has written."""
    return [PROGRAM, "logs", name]


def stopping_words(name: str, term_s: float, client: str = PROGRAM) -> list[str]:
    """Return the words that send SIGTERM to a container, and SIGKILL after so many seconds."""
    return [client, "stop", "-t", str(max(1, round(term_s))), name]


def removing_words(*names: str, client: str = PROGRAM) -> list[str]:
    """Return the words that end containers and remove them."""
    return [client, "rm", "--force", "--volumes", *names]


def read_inspected(answer: bytes) -> Inspected | None:
    """Return what `docker inspect` says, None where it says anything else."""
    try:
        rows = json.loads(answer)
        row = rows[0] if isinstance(rows, list) and rows else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    state, config, host = (_part(row, name) for name in ("State", "Config", "HostConfig"))
    code = state.get("ExitCode")
    listed = config.get("Env")
    pairs = (
        [each.partition("=") for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    )
    return Inspected(
        is_running=state.get("Running") is True,
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else -1,
        is_out_of_memory=state.get("OOMKilled") is True,
        network=str(host.get("NetworkMode", "")),
        ipc=str(host.get("IpcMode", "")),
        pod=str(_part(config, "Labels").get(LABEL, "")),
        environment={name: value for name, _, value in pairs},
        has_started=state.get("Status") != "created",
    )


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = row.get(name)
    return found if isinstance(found, dict) else {}
