"""The models that live pods have, which the form of a task suggests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from control_plane.model.groups.races.machine import machine_of
from control_plane.reads.reading import Reading
from control_plane.runs.explainer import live_documents

SHOWN_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class KnownModels:
    """On how many live pods each model is, and how many pods there are."""

    on: Counter[str]
    pods: int

    @property
    def names(self) -> list[str]:
        """The models to suggest, those of the most pods first."""
        return [name for name, _ in sorted(self.on.items(), key=lambda each: (-each[1], each[0]))][:SHOWN_MAX]

    def words(self, model: str) -> str:
        """Say where a model is."""
        if not model or not self.pods:
            return ""
        if found := self.on[model]:
            return f"on {found} of {self.pods} live pods"
        return "no live pod has it: the engine has to fetch it, else its runs fail"


async def known_models(reading: Reading) -> KnownModels:
    """Return the models of the pods that report."""
    machines = [machine_of(pod, document) for pod, document in await live_documents(reading)]
    on = Counter(name for each in machines for name in {model.name for model in each.models or ()})
    return KnownModels(on, len(machines))
