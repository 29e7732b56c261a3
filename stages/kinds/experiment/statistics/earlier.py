"""What a verdict is worth beside the earlier ones on the same rows; pure.

Law: what is said of a verdict depends on those before it alone, so that no later one changes it. Verdict k on some
rows has the share 1 / (k (k + 1)) of the error that all of them may make together: the shares of all verdicts,
however many follow, add up to one (alpha spending). The conclusion itself stays that of the claim alone, whose
rate of error was registered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from events.catalog import Conclusion
from events.kinds.experiment import ClaimJudged
from events.kinds.space.data_sets import DataSet
from stages.kinds.experiment.statistics.estimate import LEVEL
from stages.kinds.experiment.statistics.validation import Judgement

NAME_MAX: Final = 200  # of a data set, in an event
P_SHOWN: Final = 1e-3  # smaller ones have an exponent

Rows = Literal["test", "reserve"]


@dataclass(frozen=True, slots=True)
class Use:
    """Rows of a data set, used for a verdict; `earlier` verdicts on them were known, None if that is not known.

    `title` is what people call the set, `data` what it is; `rows` are those of the part that judged.
    """

    title: str
    data: str
    part: Rows
    rows: int
    earlier: int | None
    conclusion: Conclusion
    p_value: float | None = None
    level: float = LEVEL  # at which it was concluded

    @property
    def number(self) -> int | None:
        """Return which verdict on these rows it is, counted from 1."""
        return None if self.earlier is None else self.earlier + 1

    @property
    def factor(self) -> int | None:
        """Return how many times the p-value counts."""
        return None if self.number is None else self.number * (self.number + 1)

    @property
    def p_beside(self) -> float | None:
        """Return what the p-value of the conclusion is worth beside the earlier verdicts."""
        if self.p_value is None or self.factor is None:
            return None
        return min(1.0, self.p_value * self.factor)

    @property
    def holds(self) -> bool | None:
        """Return whether it would be concluded beside the earlier verdicts too; None where that is not asked."""
        return None if self.p_beside is None else self.p_beside < self.level

    def scores(self) -> dict[str, Any]:
        """Return it as the validation event carries it."""
        return {
            "data": self.data,
            "part": self.part,
            "rows": self.rows,
            "earlier": self.earlier,
            "p_value": self.p_value,
            "p_beside": self.p_beside,
            "holds": self.holds,
        }

    def sentence(self, words: dict[str, str] | None = None) -> str:
        """Return it for people; `words` stand in the place of the numbers and of the name, such as references."""
        said = {
            "title": self.title[:NAME_MAX],
            "number": str(self.number),
            "earlier": str(self.earlier),
            "factor": str(self.factor),
            "beside": "" if self.p_beside is None else p_text(self.p_beside),
            **(words or {}),
        }
        part = "test rows" if self.part == "test" else "reserve"
        of = f"the {part} of {said['title']}"
        if self.number is None:
            return f"How many verdicts on {of} there were before is not known, so none is corrected for."
        if self.earlier == 0:
            which = (
                f"This is the first verdict on {of} (none of another run was known when its attempt began)."
            )
        else:
            which = (
                f"This is verdict {said['number']} on {of} (known of other runs when its attempt "
                f"began: {said['earlier']})."
            )
        if self.p_beside is None:
            return which
        end = "holds" if self.holds else "does not hold"
        return (
            f"{which} So that all verdicts on these rows, however many follow, err together no more often than one, its "
            f"p-value counts {said['factor']} times: it is worth {said['beside']}, with which the conclusion {end} "
            "beside the others."
        )


def identity_of(data: DataSet) -> str:
    """Return what a data set is: the name of one that ships, else the digest of its file."""
    return f"sha256:{data.digest}" if data.location else data.name


def measurement_of(mark: str, judgements: Sequence[Judgement]) -> str:
    """Return a digest of all that was measured; `mark` is of the secret that hid the rows."""
    units = [
        [each.plan.metric.name, *([pair.seed, pair.baseline, pair.intervention] for pair in each.pairs)]
        for each in judgements
    ]
    return hashlib.sha256(json.dumps([mark, units]).encode()).hexdigest()


def fact_of(use: Use, mark: str, judgements: Sequence[Judgement]) -> ClaimJudged:
    """Return the event that says so."""
    return ClaimJudged(
        data=use.data[:NAME_MAX], name=use.title[:NAME_MAX], part=use.part, rows=use.rows,
        measurement=measurement_of(mark, judgements), conclusion=use.conclusion, earlier=use.earlier,
        p_value=use.p_value, p_beside=use.p_beside, says=use.sentence(),
    )  # fmt: skip


def p_text(value: float) -> str:
    """Return a p-value with two figures."""
    return f"{value:.2g}" if value >= P_SHOWN else f"{value:.0e}"


def earlier_of(told: object, data: str, part: Rows) -> int | None:
    """Return how many verdicts on these rows an attempt was told of; None where it was not told, or not of all."""
    if not isinstance(told, dict) or not isinstance(counts := told.get("verdicts"), dict):
        return None
    found = counts.get(f"{data} {part}", 0)
    is_known = told.get("isWhole") is True and type(found) is int and found >= 0
    return found if is_known else None
