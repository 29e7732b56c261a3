"""A machine that may run a lane: what its pod reported, read within bounds; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from control_plane.model.views.live_pods import IDLE, LivePod
from events.kinds.results import is_measured
from events.queue.rules import pod_name

MIB: Final = 1024 * 1024
MODELS_MAX: Final = 1_000
ENGINES_MAX: Final = 100
GPUS_MAX: Final = 64
NAME_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Model:
    """A model that lies on a machine; `engine` is set where one engine alone has it."""

    name: str
    size: int | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A live worker with its equipment; what it does not tell is None."""

    pod: LivePod
    labels: Mapping[str, str] = field(default_factory=dict)
    memory_mib: float | None = None
    gpus: Sequence[tuple[str, float]] = ()
    device: str | None = None
    cpu: str | None = None
    cpus: int | None = None
    models: Sequence[Model] | None = None
    engines: Sequence[str] | None = None

    @property
    def name(self) -> str:
        """The name of its pod."""
        return pod_name(self.pod.id)

    @property
    def is_idle(self) -> bool:
        """Say whether it could begin at once."""
        return self.pod.shown_state in IDLE

    @property
    def model_memory(self) -> tuple[int | None, str]:
        """Its memory for a model in bytes, and what that is: of its largest GPU, or its own."""
        if self.gpus:
            return int(max(memory for _, memory in self.gpus) * MIB), "GPU memory"
        return None if self.memory_mib is None else int(self.memory_mib * MIB), "memory"


def machine_of(pod: LivePod, document: Mapping[str, Any]) -> Machine:
    """Return a machine from the stored document of its pod; what has another form is not known."""
    told = document.get("capabilities")
    told = told if isinstance(told, Mapping) else {}
    labels = document.get("labels")
    gpus = [each for each in _list(told.get("gpus"))[:GPUS_MAX] if isinstance(each, Mapping)]
    cpus = told.get("cpus")
    return Machine(
        pod=pod,
        labels={str(name): str(value) for name, value in labels.items()}
        if isinstance(labels, Mapping)
        else {},
        memory_mib=_amount(told.get("memoryMib")),
        gpus=[(_text(each.get("name")) or "GPU", _amount(each.get("memoryMib")) or 0.0) for each in gpus],
        device=_text(told.get("device")),
        cpu=_text(told.get("cpu")),
        cpus=cpus if isinstance(cpus, int) else None,
        models=_models(told["models"]) if isinstance(told.get("models"), list) else None,
        engines=[each for each in told["engines"][:ENGINES_MAX] if isinstance(each, str)]
        if isinstance(told.get("engines"), list)
        else None,
    )


def _models(told: Sequence[Any]) -> list[Model]:
    found: list[Model] = []
    for each in told[:MODELS_MAX]:
        name = _text(each.get("name")) if isinstance(each, Mapping) else None
        if name is not None:
            size = _amount(each.get("bytes"))
            found.append(Model(name, int(size) if size else None, _text(each.get("engine"))))
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _amount(value: Any) -> float | None:
    return float(value) if is_measured(value) and value >= 0 else None


def _text(value: Any) -> str | None:
    return value[:NAME_CHARS_MAX] if isinstance(value, str) and value else None
