"""The checks that a pod makes: those of every machine, and those of what its settings and devices are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from events.kinds import KINDS
from events.kinds.kind import PodPart
from events.models.providers import named_provider
from pod_worker.child.process import ChildOptions, allowed
from pod_worker.health.check import Check, Finding
from pod_worker.health.health import Health
from pod_worker.health.machine import DiskLook, judge_clock, look_at_memory, look_for_tools
from pod_worker.health.model_look import ModelLook
from pod_worker.health.storage_look import StorageLook
from pod_worker.health.trial import TRIAL_S, Trial
from pod_worker.machine.gauges import Cuda

CLOCK_AGAIN_S: Final = 10.0
NO_DEVICE: Final = "NO_DEVICE"
MACHINE_AGAIN_S: Final = 15.0
TRIAL_LIMIT_S: Final = TRIAL_S + 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """What the checks of a pod look at.

    `clock_offset_s` is by how many seconds the machine's clock is ahead of the store's, None while nobody has
    measured that. `card_faults` are those of the hardware of a slot's cards, None where the fleet judges the
    whole pod. The sandbox was tried before the worker began where pipelines `are_confined`.
    """

    data: Path
    check_room: Callable[[], None]
    environ: Mapping[str, str]
    options: ChildOptions
    storage: StorageLook
    has_gpu: bool
    clock_offset_s: Callable[[], float | None] = lambda: None
    card_faults: Callable[[], Sequence[str]] | None = None

    @property
    def are_confined(self) -> bool:
        """Whether the trial of the confinement, which a worker makes at its start, has passed."""
        return self.options.confinement is not None


def checks_of(subjects: Subjects) -> tuple[Check, ...]:
    """Return the checks of a pod."""
    return tuple(_checks(subjects))


def _checks(subjects: Subjects) -> Iterator[Check]:
    def clock() -> Finding:
        return judge_clock(subjects.clock_offset_s())

    disk = DiskLook(subjects.data, subjects.check_room)
    environ = allowed(subjects.environ)
    yield Check(name="clock", subject="clock", look=clock, again_s=CLOCK_AGAIN_S)
    yield Check(name="disk", subject="disk", look=disk, again_s=MACHINE_AGAIN_S)
    yield Check(name="memory", subject="memory", look=look_at_memory, again_s=MACHINE_AGAIN_S)
    yield Check(name="storage", subject="storage", look=subjects.storage)
    yield Check(name="tools", subject="tools", kinds=_users("tools"), look=partial(look_for_tools, environ))
    yield Check(
        name="sandbox",
        subject="sandbox",
        kinds=_users("sandbox"),
        look=Trial("sandbox", subjects.options),
        limit_s=TRIAL_LIMIT_S,
        is_known=subjects.are_confined,
    )
    # Also without a device: a driver that nobody sees can still raise in a run.
    gpu = Trial("gpu", subjects.options) if subjects.has_gpu else _no_gpu
    yield Check(name="gpu", subject="gpu", kinds=_users("gpu"), look=gpu, limit_s=TRIAL_LIMIT_S)
    if (faults := subjects.card_faults) is not None:
        cards = partial(look_at_cards, faults)
        yield Check(name="cards", subject="gpu", look=cards, again_s=MACHINE_AGAIN_S, is_known=True)
    provider = named_provider(environ)
    if provider is not None:
        model = ModelLook(provider, environ)
        yield Check(name=f"model:{model.host}", subject="model", kinds=_users("model"), look=model)


def look_at_cards(faults: Callable[[], Sequence[str]]) -> Finding:
    """Look at what the slot's cards have told since its start: other slots of the pod have others."""
    found = faults()
    if not found:
        return Finding(True)
    return Finding(
        False, "GPU_BROKEN", f"its GPU fails ({', '.join(found)}); restart the worker once it is whole"
    )


def _no_gpu() -> Finding:
    return Finding(True, NO_DEVICE, "there is none")


def cuda_of(health: Health) -> Cuda | None:
    """Return what the check `gpu` has found of CUDA, None before it was made."""
    found = next((each for each in health.report() if each.name == "gpu"), None)
    return None if found is None else Cuda(found.ok and found.code is None, found.code, found.message)


def _users(part: PodPart) -> frozenset[str]:
    """Return the kinds that use a part of the pod."""
    return frozenset(name for name, kind in KINDS.items() if part in kind.uses)
