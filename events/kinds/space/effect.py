"""What a claim says of one measure: it moves, it does not move the other way, or it stays; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from events.kinds.space.metrics import Metric

Direction = Literal["increase", "decrease"]
EffectKind = Literal["superior", "not_inferior", "equivalent"]


@dataclass(frozen=True, slots=True)
class Effect:
    """How far a measure moves.

    `superior`: in `direction` by more than `margin`. `not_inferior`: against `direction` by less than
    `margin`, if at all. `equivalent`: by less than `margin` in either. `is_default` is whether no word names
    the margin.
    """

    metric: Metric
    direction: Direction
    kind: EffectKind = "superior"
    margin: float = 0.0
    is_default: bool = False

    @property
    def words(self) -> str:
        """Return what is claimed, as it follows the name of the measure."""
        if self.kind == "superior":
            return f"becomes {_move(self.direction)}" + (f" by at least {self.size}" if self.margin else "")
        end = " (the default margin)" if self.is_default else ""
        if self.kind == "equivalent":
            return f"changes by less than {self.size}{end}"
        return f"does not become {_move(opposite(self.direction))} by {self.size} or more{end}"

    @property
    def question(self) -> str:
        """Return what is measured, as it follows "does" and the name of the measure."""
        if self.kind == "superior":
            return f"become {_move(self.direction)}" + (f" by at least {self.size}" if self.margin else "")
        if self.kind == "equivalent":
            return f"change by {self.size} or more"
        return f"become {_move(opposite(self.direction))} by {self.size} or more"

    @property
    def size(self) -> str:
        """Return the margin in words."""
        number = self.margin * 100 if self.metric.unit == "point" else self.margin
        unit = f" {self.metric.unit}{'' if f'{number:g}' == '1' else 's'}" if self.metric.unit else ""
        return f"{number:g}{unit}"


def opposite(direction: Direction) -> Direction:
    """Return the other direction."""
    return "decrease" if direction == "increase" else "increase"


def better(metric: Metric) -> Direction:
    """Return where a measure improves."""
    return "increase" if metric.higher_is_better else "decrease"


def _move(direction: Direction) -> str:
    return "higher" if direction == "increase" else "lower"
