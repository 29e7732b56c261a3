"""Divides the life of a worker into segments, each of one class, pure.

Law: the segments of a life lie end to end from its start to its last word, in whole milliseconds, whatever
attempts say of themselves. So the classes sum to the time of the pods exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, Literal, NamedTuple, get_args

from events.lifecycle import Fault

# `running` is of attempts that have not ended: what it becomes is not known yet.
Class = Literal[
    "useful", "overhead", "lost_run", "lost_pod", "lost_outside", "preempted", "canceled", "running", "idle"
]
# Of a worker: how many GPUs it has, and its price.
Rate = tuple[int, float | None]
CLASSES: Final[tuple[Class, ...]] = get_args(Class)
LOST: Final[tuple[Class, ...]] = ("lost_run", "lost_pod", "lost_outside", "preempted", "canceled")
_FAULTS: Final[dict[str | None, Class]] = {Fault.POD: "lost_pod", Fault.OUTSIDE: "lost_outside"}
# Ends that the worker itself told: it lived until then.
_OWN: Final = frozenset({"completed", "failed", "preempted"})


@dataclass(frozen=True, slots=True)
class Life:
    """The life of a worker, from its start to its last word, in milliseconds since 1970.

    One worker does one attempt at a time. `gpus` and `usd_per_hour` are those of the whole worker.
    """

    id: str
    since: int
    until: int
    gpus: int = 0
    usd_per_hour: float | None = None

    @property
    def rate(self) -> Rate:
        """How many GPUs it has, and its price."""
        return self.gpus, self.usd_per_hour


class Held(NamedTuple):
    """An attempt that a worker held, and the marks of its log; `until` is None while it runs.

    `saved_until` is the moment of its last checkpoint, None unless a later attempt went on from it.
    """

    run_id: str
    attempt: int
    worker: str
    since: int
    until: int | None = None
    outcome: str | None = None
    fault: str | None = None
    worked_from: int | None = None
    worked_until: int | None = None
    saved_until: int | None = None


class Segment(NamedTuple):
    """A part of a life that is of one class; of no run where that is idle."""

    life: Life
    held: Held | None
    of: Class
    since: int
    until: int


def segments(life: Life, held: Sequence[Held]) -> Iterator[Segment]:
    """Yield the segments of a life, end to end; what attempts say beyond it, or of one time twice, is cut."""
    at = life.since
    for each in sorted(held, key=attrgetter("since", "run_id", "attempt")):
        if each.since >= life.until:
            break
        if each.since > at:
            yield Segment(life, None, "idle", at, each.since)
            at = each.since
        for of, until in cuts(each, life.until):
            end = min(until, life.until)
            if end > at:
                yield Segment(life, each, of, at, end)
                at = end
    if life.until > at:
        yield Segment(life, None, "idle", at, life.until)


def cuts(held: Held, last: int) -> Iterator[tuple[Class, int]]:
    """Yield the classes of an attempt's time in their order, each with its end.

    What completed is useful from its first own stage to its last; before and after that is overhead. Of what
    did not complete, that is what its last checkpoint saved for a later attempt. The rest was lost.
    """
    end = last if held.until is None else held.until
    is_useful_until = held.worked_until if held.outcome == "completed" else held.saved_until
    if held.outcome == "completed" and is_useful_until is None:
        is_useful_until = end
    if is_useful_until is not None:
        begun = held.since if held.worked_from is None else held.worked_from
        yield "overhead", min(begun, end)
        yield "useful", min(is_useful_until, end)
    yield _rest(held), end


def _rest(held: Held) -> Class:
    match held.outcome:
        case "completed":
            return "overhead"
        case "preempted" | "canceled":
            return held.outcome
        case None:
            return "running"
        case _:
            return _FAULTS.get(held.fault, "lost_pod" if held.outcome == "lost" else "lost_run")


def lived(life: Life, held: Sequence[Held]) -> Life:
    """Return a life that includes what its attempts prove: that it claimed, and what it said of them."""
    since = min([life.since, *(each.since for each in held)])
    until = max([life.until, *map(_last_word, held)])
    return replace(life, since=since, until=until)


def _last_word(held: Held) -> int:
    """Return when a worker was last heard of in an attempt: at its end where it told that, else at a mark."""
    if held.until is None:
        return held.since
    if held.outcome in _OWN:
        return max(held.since, held.until)
    marks = [each for each in (held.worked_from, held.worked_until, held.saved_until) if each is not None]
    return max([held.since, *(min(each, held.until) for each in marks)])


def within(life: Life, since: int, until: int) -> Life | None:
    """Return the part of a life in a window, None if there is none."""
    begun, ended = max(life.since, since), min(life.until, until)
    return replace(life, since=begun, until=ended) if ended > begun else None
