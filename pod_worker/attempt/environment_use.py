"""The Python environment of one attempt: its process asks for it, and uses it until the attempt ends.

Law: the worker makes the key itself, and keeps one environment of an attempt: the first one asked for, and
none of a run that has a secret of uv. Nobody waits for one that is not kept. Another thread waits and copies,
so that the lease is looked after meanwhile.
"""

from __future__ import annotations

import logging
import platform
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.delivery.pipe import Environment, EnvironmentMade, EnvironmentWanted
from events.files.environments import environment_key
from events.runtime.errors import Rejected, Transient
from events.runtime.loops import Threads
from pod_worker.files.environments import BYTES_MAX, EnvironmentCache, Held
from pod_worker.files.index_settings import IndexSettings

log = logging.getLogger(__name__)

PYTHON: Final = f"{sys.implementation.cache_tag} {sys.version} {sys.base_prefix} {platform.platform()}"


class _OverError(Exception):
    """The attempt ends."""


@dataclass(frozen=True, slots=True)
class PodEnvironments:
    """What all attempts of a worker share: the cache, and where packages come from."""

    cache: EnvironmentCache
    settings: IndexSettings = field(default_factory=IndexSettings)


@dataclass(slots=True)
class EnvironmentUse:
    """The environment of one attempt, from the wish of its process on; None as `pod`: there is no cache.

    One that `is_alone` makes its own, of which nobody else has anything.
    """

    pod: PodEnvironments | None
    workspace: Path
    threads: Threads
    answer: Callable[[Environment], None]
    is_alone: bool = False
    held: Held | None = None
    is_asked: bool = False
    is_made: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, frame: EnvironmentWanted | EnvironmentMade) -> None:
        """Take a wish of the process; the answer follows from another thread."""
        if isinstance(frame, EnvironmentWanted):
            is_first, self.is_asked = not self.is_asked, True
            work = self._hold
        else:
            is_first, self.is_made = self.is_asked and not self.is_made, True
            work = self._keep
        if not is_first or self.pod is None:
            self.answer(self._told(problem="this pod keeps no environment"))
            return
        if self.is_alone and isinstance(frame, EnvironmentWanted):
            self.answer(self._told())
            return
        self.threads("environment", lambda: self._do(work, frame))

    def close(self) -> None:
        """Leave the environment to others."""
        self._over.set()
        with self._turn:
            self._leave()

    def _leave(self) -> None:
        if self.held is not None:
            self.held.close()
            self.held = None

    def _do(self, work: Callable[[object], Environment], frame: object) -> None:
        with self._turn:
            try:
                self._check()  # a lock of an attempt that is over would be nobody's to free
                answer = work(frame)
            except _OverError:
                return
            except (Rejected, Transient) as error:
                answer = self._told(problem=error.message)
            except OSError as error:
                answer = self._told(problem=f"{error}")
            if answer.problem and self.held is not None and self.held.path is None:
                self._leave()
        if answer.problem:
            log.warning("environment.not_kept", extra={"why": answer.problem})
        self.answer(answer)

    def _hold(self, frame: object) -> Environment:
        assert self.pod is not None
        assert isinstance(frame, EnvironmentWanted)
        settings = self.pod.settings
        key = environment_key(frame.digest, PYTHON, settings.variables, [*settings.options])
        self.held = self.pod.cache.hold(key, self._check)
        return self._told()

    def _keep(self, frame: object) -> Environment:
        assert isinstance(frame, EnvironmentMade)
        if self.held is None or self.held.path is not None:
            return self._told(problem="there is nothing to keep")
        made = Path(frame.path)
        real = self.workspace.parent.resolve() / self.workspace.name
        if not Path(frame.path).resolve().is_relative_to(real):
            return self._told(problem="it lies outside the attempt's folder")
        self.held.keep(made.resolve(), self._check)
        return self._told()

    def _check(self) -> None:
        if self._over.is_set():
            raise _OverError

    def _told(self, problem: str | None = None) -> Environment:
        settings = self.pod.settings if self.pod else IndexSettings()
        return Environment(
            path=str(self.held.path) if self.held is not None and self.held.path is not None else None,
            variables=dict(settings.variables),
            options=[*settings.options],
            bytes_max=min(BYTES_MAX, self.pod.cache.bytes_max) if self.pod else BYTES_MAX,
            problem=problem,
        )
