"""Writes a claim of the declared space out in the seven fields; pure.

Law: only what is known without a measurement is stated; what an experiment would show is a question.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from events.kinds.idea import Idea
from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.recipe import described
from events.kinds.space.understanding import understand
from events.runtime.errors import NotMeasurable
from stages.kinds.ideation.feasibility import doubts, obstacle
from stages.kinds.ideation.variations import Candidate
from stages.kinds.ideation.wording import Saying

OWN_WORDS_MAX: Final = 600  # characters of the author's text that are quoted


@dataclass(frozen=True, slots=True)
class Draft:
    """A candidate on its way to an idea; `is_sharp` when its texts define how it will be decided."""

    candidate: Candidate
    is_sharp: bool = False

    @property
    def saying(self) -> Saying:
        """Return the claim."""
        return self.candidate.saying

    def sharpened(self) -> Draft:
        """Return this draft with its decision rule, controls and every doubt."""
        return replace(self, is_sharp=True)


def write(draft: Draft, *, related_work: str, filled_in: tuple[str, ...] = ()) -> Idea:
    """Return the idea that `draft` stands for; `filled_in` is what its author left open."""
    saying = draft.saying
    found = doubts(saying)
    return Idea(
        name=saying.name,
        title=saying.title,
        short_hypothesis=saying.sentence,
        related_work=related_work,
        abstract=_abstract(draft, filled_in),
        experiments=_experiments(draft),
        risks=found if draft.is_sharp else found[:1],
    )


def misread(saying: Saying) -> str | None:
    """Return how the sentence of `saying` parses to another claim; None where it parses to the same."""
    try:
        understood = understand(write(Draft(Candidate(saying, "")).sharpened(), related_work=""))
    except NotMeasurable as error:
        return error.message
    return None if saying.is_said_by(understood) else f"it is read as: {understood.claim.sentence}"


def quoted(text: str) -> str:
    """Return the author's words as a sentence of its own."""
    words = " ".join(text.split())
    short = words if len(words) <= OWN_WORDS_MAX else f"{words[:OWN_WORDS_MAX].rstrip()}…"
    return f"The idea starts from its author's words: “{short}”"


def _abstract(draft: Draft, filled_in: tuple[str, ...]) -> str:
    saying = draft.saying
    intervention = saying.form.intervention()
    sentences = [
        f"We ask whether {_changed(saying)} moves the {saying.metric.title} on {saying.data.title}.",
        f"The reason to ask: {draft.candidate.why}." if draft.candidate.why else "",
        f"Baseline: a small network with {described(intervention.off)}.",
    ]
    if draft.is_sharp:
        sentences.append(
            "Both arms share every other choice, so that a difference has one cause. The claim holds if the "
            "interval of the paired differences over random splits lies on its side of zero."
        )
        sentences.extend(filled_in)
        blocked = obstacle(saying)
        sentences.append(f"Mind: {blocked}." if blocked else "")
    return " ".join(sentence for sentence in sentences if sentence)


def _changed(saying: Saying) -> str:
    phrase = saying.form.phrase()
    return f"training {phrase}" if saying.form.is_removed else phrase


def _experiments(draft: Draft) -> list[str]:
    saying = draft.saying
    intervention = saying.form.intervention()
    arms = "; or ".join(described(changes) for changes in intervention.strengths)
    steps = [f"Baseline: {described(intervention.off)}.", f"Intervention: {arms}; nothing else changes."]
    if not draft.is_sharp:
        return steps
    steps.insert(1, "Tune the baseline first, so that the comparison is not won by a neglected opponent.")
    if saying.train_examples:
        steps.insert(0, f"Give both arms the same {saying.train_examples} training examples.")
    if INTERVENTIONS[saying.form.name].knob and saying.form.strength is None and not saying.form.is_removed:
        steps.append("Look at the dose: does a stronger one do more?")
    steps.append(
        f"Measure the {saying.metric.title} of both arms on the same fresh splits, by rows "
        "that neither has learnt from."
    )
    steps.append("Ablate: does the difference stay when training length, width or learning rate vary?")
    return steps
