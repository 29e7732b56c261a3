"""Pods that reported lately, as whatever places runs sees them, pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from events.queue.abilities import Abilities
from events.queue.pod_checks import Broken

IDLE: Final = frozenset({"idle", "starting"})


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a pod from claiming: its state in a word, and why in a sentence."""

    state: Literal["cordoned", "quarantined"]
    why: str


@dataclass(frozen=True, slots=True)
class LivePod:
    """A pod with a recent report."""

    id: str
    state: str
    abilities: Abilities
    is_draining: bool = False
    broken: tuple[Broken, ...] = ()
    hold: Hold | None = None

    @property
    def shown_state(self) -> str:
        """The state that tells whether it takes a run."""
        if self.hold is not None:
            return self.hold.state
        return "draining" if self.is_draining else self.state
