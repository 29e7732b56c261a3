"""The comparison that a statement wants, as an intervention of the space with its baseline; pure.

Law: what is said is what is tried. A value that cannot be tried refuses the claim; no other takes its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from events.kinds.space.interventions import INTERVENTIONS, Changes, Intervention
from events.kinds.space.recipe import Recipe, Value, described, shown
from events.kinds.space.sentences.statement import Arm

_USUAL: Final = Recipe().params()


class Impossible(Exception):
    """The comparison cannot be tried as it is said; its text is the reason."""


def comparison_of(arm: Arm, against: Arm | float | None) -> Intervention:
    """Return what is tried: the intervention, and the baseline without it. Raises `Impossible`."""
    if arm.from_value is not None and against is None:
        against = arm.from_value
    elif arm.from_value is not None or (isinstance(against, Arm) and against.from_value is not None):
        raise Impossible("what goes from one value to another has no other comparator")
    if against is None:
        chosen = _at_its_value(arm)
        return chosen.reversed() if arm.is_removed else chosen
    if arm.is_removed:
        raise Impossible("what is taken away is compared with what has it; it has no other comparator")
    if isinstance(against, float):
        return _against_value(arm, against)
    mine, other = INTERVENTIONS[arm.name], INTERVENTIONS[against.name]
    if mine.knob and other.knob and mine.knob.name == other.knob.name and against.value is not None:
        return _against_value(arm, against.value)
    if mine.name == other.name:
        raise Impossible(f"both sides of the comparison are {mine.title}")
    return _at_its_value(arm).instead_of(_at_its_value(against))


def _at_its_value(arm: Arm) -> Intervention:
    """Return the intervention of an arm at the value that was said. Raises `Impossible`."""
    chosen = INTERVENTIONS[arm.name]
    if arm.value is None:
        return chosen
    if chosen.knob is not None:
        if not chosen.can_be(arm.value):
            raise _out_of_range(chosen, arm.value)
        return chosen.pinned(arm.value)
    tried = tuple(each for each in chosen.strengths if _has(each, arm.value))
    if not tried:
        raise Impossible(f"{chosen.title} is tried as {_options(chosen)}, and not at {shown(arm.value)}")
    return replace(chosen, title=f"{chosen.title} ({described(tried[0])})", strengths=tried)


def _against_value(arm: Arm, value: float) -> Intervention:
    """Return an arm at its value against another value of the same. Raises `Impossible`."""
    chosen = _at_its_value(arm)
    if arm.value is not None and list(chosen.off.values()) == [value]:
        return chosen  # it is the baseline anyway
    knob = INTERVENTIONS[arm.name].knob
    if knob is None or arm.value is None:
        raise Impossible(f"{chosen.title} has no value that could be compared with {shown(value)}")
    if value == arm.value:
        raise Impossible(f"both sides of the comparison are {shown(value)}")
    usual = _USUAL[knob.name]
    rivals = [each for each in INTERVENTIONS.values() if each.knob and each.knob.name == knob.name]
    if value != usual and not any(each.can_be(value) for each in rivals):
        raise _out_of_range(chosen, value)
    start: Value = round(value) if isinstance(usual, int) else value
    title = f"{chosen.title} instead of {described({knob.name: start})}"
    return replace(chosen, title=title, off={knob.name: start})


def _out_of_range(chosen: Intervention, value: float) -> Impossible:
    knob = INTERVENTIONS[chosen.name].knob
    assert knob is not None
    title = INTERVENTIONS[chosen.name].title
    is_whole = "at whole numbers " if isinstance(_USUAL[knob.name], int) else ""
    return Impossible(f"{title} is tried {is_whole}from {knob.low:g} to {knob.high:g}, and not at {value:g}")


def _has(changes: Changes, value: float) -> bool:
    return any(type(each) in (int, float) and each == value for each in changes.values())


def _options(chosen: Intervention) -> str:
    return " or ".join(described(each) for each in chosen.strengths)
