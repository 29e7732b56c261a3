"""What a change of the quarantines may do, as the judge of a history sees it; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]


def held(quarantines: Sequence[Document]) -> list[str]:
    """Return the pods that claim nothing by these quarantines."""
    return [each["pod"] for each in quarantines if each["trialAt"] is None]


def wrong_quarantines(
    before: Sequence[Document], after: Sequence[Document], pods: int, *, is_calm: bool
) -> list[str]:
    """Return what a change of the quarantines may not do, pure.

    A pod that was let go is held anew, or not at all; none is forgotten within a day; where nothing else
    changes, at most half of the pods are held.
    """
    earlier: dict[str, Any] = {each["pod"]: each for each in before}
    later: dict[str, Any] = {each["pod"]: each for each in after}
    found = [
        f"{name} is in no quarantine any more, and nothing says why"
        for name in sorted(earlier.keys() - later.keys())
    ]
    for name, each in later.items():
        was = earlier.get(name)
        if (
            was is not None
            and was["trialAt"] is not None
            and each["trialAt"] is None
            and each["since"] == was["since"]
        ):
            found.append(f"{name} was let go, and is held by the same decision as before")
    if is_calm and 2 * len(held(after)) > pods and len(held(after)) > len(held(before)):
        found.append(f"{len(held(after))} of {pods} pods are in quarantine: {', '.join(held(after))}")
    return found
