"""Whether a model fits into the memory of a machine; pure.

Law: of its memory a machine can use 90 %, and a model needs 1.7 times the bytes of its weights at its peak.
What is not known is a risk, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from events.formatting import size

Grade = Literal["GOOD", "RISK", "FAIL"]

GRADES: Final[tuple[Grade, ...]] = ("GOOD", "RISK", "FAIL")
USABLE_SHARE: Final = 0.9
PEAK_FACTOR: Final = 1.7
GOOD_RATIO: Final = 1.2
RISK_RATIO: Final = 1.0


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model fits, and the numbers by which that is said; None where a number is not known."""

    grade: Grade
    says: str
    memory_bytes: int | None = None
    usable_bytes: int | None = None
    peak_bytes: int | None = None
    ratio: float | None = None


def fit_of(memory_bytes: int | None, model_bytes: int | None, *, of: str = "memory") -> Fit:
    """Return how weights of `model_bytes` fit into `memory_bytes`; `of` names the memory."""
    usable = None if memory_bytes is None else int(memory_bytes * USABLE_SHARE)
    peak = None if model_bytes is None else int(model_bytes * PEAK_FACTOR)
    if usable is None or peak is None or peak <= 0:
        unknown = "the size of the model" if usable is not None else f"the size of its {of}"
        return Fit("RISK", f"{unknown} is not known", memory_bytes, usable, peak)
    ratio = usable / peak
    grade: Grade = "GOOD" if ratio >= GOOD_RATIO else "RISK" if ratio >= RISK_RATIO else "FAIL"
    words = {"GOOD": "fits", "RISK": "fits barely", "FAIL": "does not fit"}[grade]
    says = f"it {words}: {size(peak)} at its peak, {size(usable)} of {of} usable, ratio {ratio:.2f}"
    return Fit(grade, says, memory_bytes, usable, peak, ratio)


def worst(grades: Iterable[Grade]) -> Grade:
    """Return the worst of some grades; GOOD without any."""
    return max(grades, key=GRADES.index, default="GOOD")
