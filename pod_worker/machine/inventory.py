"""Which engines and models the pod has: looked up in the background, and again every few minutes.

Law: a look delays no report and no claim. What it lists is named by files and by a server of somebody else:
each name is cut, and there is a bound on how many.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from events.delivery.pipe import FoundModel
from events.runtime.clock import Clock
from events.runtime.loops import run_every
from pod_worker.child.process import ChildOptions, allowed
from pod_worker.machine.engines import engines_here
from pod_worker.machine.names import name_of
from pod_worker.machine.ollama import ollama_models

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 300.0
FIRST_LOOK_S: Final = 2.0  # after the start, which has more urgent work
LOOK_S: Final = 60.0
MODELS_MAX: Final = 100
ENGINES_MAX: Final = 64
ANSWER_BYTES_MAX: Final = 1 << 20
BYTES_MAX: Final = 2**53 - 1
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
COMMAND: Final = (sys.executable, "-m", "pod_worker.child.inventory")


@dataclass(frozen=True, slots=True)
class Model:
    """A model on this pod; `engine` is set where one engine alone has it."""

    name: str
    bytes: int | None
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """What there is; None was not looked up yet."""

    engines: tuple[str, ...] | None = None
    models: tuple[Model, ...] | None = None


NOT_LOOKED: Final = Inventory()


@dataclass(slots=True)
class InventoryLook:
    """Looks the inventory up, in a process with the confinement and the variables of a pipeline."""

    options: ChildOptions
    command: tuple[str, ...] = COMMAND
    ollama: Callable[[], Sequence[FoundModel]] = tuple
    found: Inventory = NOT_LOOKED

    def run_once(self) -> Inventory:
        """Look, and keep what was found."""
        engines = tuple(engines_here(self.options.environ))[:ENGINES_MAX]
        self.found = Inventory(engines, self.found.models)
        models = [*self._listed(), *self.ollama()]
        self.found = Inventory(engines, _told(models))
        return self.found

    def run(self, quiet: threading.Event, clock: Clock, tell: Callable[[], object]) -> None:
        """Look, and `tell` that there is news where there is, again and again until `quiet`."""
        if not clock.wait(quiet, FIRST_LOOK_S):
            run_every(LOOK_EVERY_S, partial(self._look, tell), stop=quiet, clock=clock)

    def _look(self, tell: Callable[[], object]) -> None:
        before = self.found
        try:
            self.run_once()
        except Exception as error:  # noqa: BLE001 - what others wrote is read: the next look may be better
            log.warning("inventory.unknown", extra={"why": f"{type(error).__name__}: {error}"})
        if self.found != before:
            tell()

    def current(self) -> Inventory:
        """Return what the last look found."""
        return self.found

    def _listed(self) -> list[FoundModel]:
        """Return the models that lie in the folders of the pod, as a process lists them that may hang."""
        space = None
        try:
            space = self.options.make_space()
            words = [] if self.options.confinement is None else self.options.confinement.words
            done = subprocess.run(
                [*self.command, *words, *([] if space is None else [f"--space={space.number}"])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=allowed(self.options.environ) | ({} if space is None else space.variables),
                start_new_session=True,
                timeout=LOOK_S,
                check=False,
            )
            return msgspec.json.decode(done.stdout[:ANSWER_BYTES_MAX], type=list[FoundModel])
        except (subprocess.TimeoutExpired, OSError, *UNREADABLE) as error:
            log.warning("inventory.unknown", extra={"why": str(error)})
            return []
        finally:
            if space is not None:
                space.clear()
                space.close()


def inventory_look(options: ChildOptions) -> InventoryLook:
    """Return the look at this pod, its Ollama included."""
    return InventoryLook(options, ollama=lambda: ollama_models(options.environ))


def _told(found: Sequence[FoundModel]) -> tuple[Model, ...]:
    """Return the models as a report can carry them, each once, the largest first."""
    models = {
        (name_of(each.name), each.engine): Model(
            name_of(each.name),
            None if each.bytes is None else min(max(0, each.bytes), BYTES_MAX),
            None if each.engine is None else name_of(each.engine),
        )
        for each in found
        if name_of(each.name)
    }
    return tuple(sorted(models.values(), key=lambda each: (-(each.bytes or 0), each.name))[:MODELS_MAX])
