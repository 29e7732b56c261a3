"""The child's side of a container: writes down which program it wants, and hears how it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from events.delivery.pipe import ContainerOrder, ContainerStop, ContainerTold, ContainerWanted
from events.runtime.clock import Clock
from pod_worker.isolation.job_container import ORDER
from stages.ports.containers import ContainerState


@dataclass(slots=True)
class ChildContainers:
    """Answered by the thread that hears the parent, asked by the pipeline."""

    send: Callable[[ContainerWanted | ContainerStop], None]
    clock: Clock
    _state: ContainerState = field(default_factory=ContainerState)
    _news: threading.Event = field(default_factory=threading.Event)

    def hear(self, told: ContainerTold) -> None:
        """Take the parent's word."""
        self._state = replace(
            self._state,
            is_pulling=told.state == "pulling",
            has_begun=self._state.has_begun or told.state == "running",
            has_ended=told.state == "ended",
            image=told.image or self._state.image,
            status=told.status,
            is_out_of_memory=told.is_out_of_memory,
            code=told.code,
            problem=told.problem,
        )
        self._news.set()

    def start(self, words: list[str], folder: Path, variables: dict[str, str], workspace: Path) -> None:
        """Have words run in a container of the run's image."""
        order = ContainerOrder(words=words, folder=str(folder), variables=variables)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(workspace / ORDER, flags, 0o600), "wb") as file:
            file.write(msgspec.json.encode(order))
        self.send(ContainerWanted())

    def state(self, within_s: float) -> ContainerState:
        """Return what is known, as soon as there is news."""
        if not self._state.has_ended:
            self.clock.wait(self._news, within_s)
            self._news.clear()
        return self._state

    def stop(self, grace_s: float) -> None:
        """Have it end."""
        self.send(ContainerStop(grace_s))
