"""The verdict on a claim, derived from the measurement and the reviews; pure.

Law: reviews cannot rescue a claim that the measurement does not support. A review may only refuse what was
measured to hold, which leaves the claim inconclusive, and the verdict names which of both decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from events.catalog import Conclusion, NotMeasuredCode
from events.catalog import Verdict as Word
from stages.kinds.experiment.judging.replication import Place
from stages.kinds.experiment.paper.words import verdict_line
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.record.reviews import Review, meta_review

Decider = Literal["measurement", "review"]

UNTRACED_SHOWN: Final = 20
OTHERS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """The conclusion, one sentence for people, who decided, and everything that it rests on."""

    conclusion: Conclusion
    summary: str
    decided_by: Decider
    scores: dict[str, Any]
    replication: Place | None = None
    code: NotMeasuredCode | None = None

    @property
    def verdict(self) -> Word:
        """Return the verdict: only what is supported passes."""
        return "pass" if self.conclusion == "supported" else "fail"


def weigh(
    record: Record,
    untraced: Sequence[str],
    traced: int,
    reviews: Sequence[Review],
    others: Sequence[str] = (),
) -> Verdict:
    """Return the verdict; `untraced` are numbers in the paper without an event, `traced` counts the others.

    `others` are other pods of which earlier attempts left a part of what it rests on, "" for an unknown one.
    """
    verdicts = record.verdicts
    meta = meta_review(reviews) if reviews else None
    sentence, replication = verdict_line(verdicts), verdicts.replication
    if replication is not None:
        sentence = f"{sentence} {replication.sentence(verdicts.conclusion, with_name=True)}"
    if verdicts.use is not None:
        sentence = f"{sentence} {verdicts.use.sentence()}"
    conclusion: Conclusion = "inconclusive"
    decided_by: Decider = "measurement"
    if verdicts.conclusion != "supported":
        conclusion, summary = verdicts.conclusion, sentence
    elif untraced:
        summary = f"{sentence} But the paper states {len(untraced)} numbers that no event says."
    elif meta is not None and meta["decision"] == "reject":
        decided_by = "review"
        summary = f"{sentence} But {meta['reviews'] - meta['accepted']} of {meta['reviews']} reviews reject the paper."
    else:
        conclusion, summary = "supported", sentence
        if meta is not None:
            summary = f"{sentence} {meta['accepted']} of {meta['reviews']} reviews accept the paper."
    if others:
        named = ", ".join(each or "a pod that is not known" for each in others[:OTHERS_SHOWN])
        summary = f"{summary} Parts of it are the word of earlier attempts, on other pods: {named}."
    scores = {
        **verdicts.scores(record.claim),
        "decided_by": decided_by,
        "measured": verdicts.conclusion,
        "numbers_traced": traced,
        "numbers_untraced": list(untraced[:UNTRACED_SHOWN]),
        "other_pods": list(others),
        "reviews": [msgspec.to_builtins(each) for each in reviews],
        "meta_review": meta,
    }
    nothing, place = record.verdicts.nothing, replication.place if replication else None
    return Verdict(conclusion, summary, decided_by, scores, place, nothing.code if nothing else None)
