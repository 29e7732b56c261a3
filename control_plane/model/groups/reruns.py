"""Which values of a study run again: the baseline between trials, and at the end the best; pure.

Law: what runs again follows from the slots that there are. The confirmation has begun with the first slot
that runs a trial other than the baseline more often than usual; from then on the round tries nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from control_plane.model.groups.members import Trial
from control_plane.model.groups.parameters import Values, in_json

Tried = Sequence[tuple[Values, Sequence[Trial]]]  # the values of each trial with its slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Reruns:
    """After `every` trials the baseline runs again; at the end it and the `top` best run `repeats` times.

    Before that a trial runs `usual` times.
    """

    baseline: Values | None
    usual: int
    every: int | None = None
    top: int = 0
    repeats: int = 0

    @property
    def kept(self) -> int:
        """How many slots are kept for the confirmation."""
        return (self.top + (self.baseline is not None)) * self.repeats

    def due(self, tried: Tried) -> int:
        """Return how often the baseline has to run before anything new."""
        if self.every is None:
            return 0
        others = sum(not self.is_baseline(values) for values, _ in tried)
        ran = sum(len(slots) - self.usual for values, slots in tried if self.is_baseline(values))
        return max(0, others // self.every - max(0, ran))

    def woven(self, tried: Tried, new: Sequence[Values]) -> Iterator[Values]:
        """Yield the values of slots: each new trial as often as it runs, with the baseline between them."""
        others = 0 if self.every is None else sum(not self.is_baseline(values) for values, _ in tried)
        for values in new:
            yield from [values] * self.usual
            if self.every is not None and not self.is_baseline(values):
                others += 1
                if others % self.every == 0 and self.baseline is not None:
                    yield self.baseline

    def first(self, tried: Tried) -> int | None:
        """Return the first slot of the confirmation; None where it has not begun."""
        return min((slots[self.usual].slot for _, slots in self._again(tried)), default=None)

    def confirming(self, tried: Tried, best: Sequence[Values]) -> list[Values]:
        """Return the values of the slots that the confirmation still needs, in turn.

        `best` are the trials that may be the best, the best first. Those that it has begun with stay.
        """
        begun = sorted(self._again(tried), key=lambda each: each[1][self.usual].slot)
        ran = {in_json(values): len(slots) - self.usual for values, slots in begun}
        chosen = [values for values, _ in begun]
        others = [each for each in best if in_json(each) not in ran and not self.is_baseline(each)]
        chosen += others[: max(0, self.top - len(chosen))]
        if not chosen:
            return []
        if self.baseline is not None:
            chosen.append(self.baseline)
            ran[in_json(self.baseline)] = self._baseline_since(tried, self.first(tried))
        turns = range(self.repeats)
        return [values for turn in turns for values in chosen if ran.get(in_json(values), 0) <= turn]

    def is_baseline(self, values: Values) -> bool:
        """Say whether values are those of the baseline."""
        return self.baseline is not None and in_json(values) == in_json(self.baseline)

    def _again(self, tried: Tried) -> list[tuple[Values, Sequence[Trial]]]:
        """Return the trials other than the baseline that have more slots than usual."""
        more = [(values, slots) for values, slots in tried if self.top and len(slots) > self.usual]
        return [(values, slots) for values, slots in more if not self.is_baseline(values)]

    def _baseline_since(self, tried: Tried, first: int | None) -> int:
        slots = [each.slot for values, found in tried if self.is_baseline(values) for each in found]
        return 0 if first is None else sum(slot >= first for slot in slots)
