"""The ideator without a model: claims of the declared space, checked and sharpened round by round.

Law: the same request gives the same ideas; no chance, no network but the look-ups of the pod.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from events.kinds.idea import Idea
from events.kinds.ideation import IdeationSpec
from stages.context import Stage
from stages.kinds.ideation.draft import Draft, misread, quoted, write
from stages.kinds.ideation.feasibility import obstacle
from stages.kinds.ideation.found_ideas import FoundIdeas
from stages.kinds.ideation.progress import Place
from stages.kinds.ideation.request_parser import OWN, Reading, read_request, said_by
from stages.kinds.ideation.variations import Candidate
from stages.kinds.ideation.wording import Saying

SAID_MAX: Final = 600  # characters of why a text was not read


@dataclass(slots=True)
class BuiltIn:
    """Proposes for one request; claims in `taken` are no longer new, those in `fleet` are other requests'."""

    spec: IdeationSpec
    found_ideas: FoundIdeas
    stage: Stage
    reading: Reading = field(init=False)
    supply: deque[Candidate] = field(init=False)
    taken: dict[Saying, str] = field(init=False)
    fleet: dict[Saying, str] = field(init=False)

    def __post_init__(self) -> None:
        context = self.found_ideas.context
        self.reading = read_request(self.spec, [note.text for note in context.notes.all()])
        self.supply = deque(self.reading.candidates)
        self.taken = dict.fromkeys(self.reading.known, "the request names it as known")
        claims = (
            (said_by(each), each.title or each.short_hypothesis) for each in reversed(self.spec.earlier)
        )
        self.fleet = {saying: title for saying, title in claims if saying is not None}

    def run(self) -> None:
        """Finish as many ideas as are wanted, or as there are."""
        self._say_what_was_read()
        self._pass_over_what_is_there()
        while self.supply and self.found_ideas.begun < self.found_ideas.wanted:
            self._finish(Draft(self.supply.popleft()))
        if self.found_ideas.begun < self.found_ideas.wanted:
            there = f"{self.found_ideas.begun} of {self.found_ideas.wanted}"
            self.found_ideas.context.log(
                f"the declared space holds nothing more that is new here: {there}", "warning"
            )

    def _finish(self, draft: Draft) -> None:
        """Reflect on a draft until nothing changes or its rounds are over."""
        number, turns = self.found_ideas.begun + 1, self.spec.reflections
        for turn in range(1, turns + 1):
            place = Place(number, self.found_ideas.wanted, turn, turns)
            self.stage.progress(place.fraction, place.activity)
            changed, note = self._reflect(draft)
            self.found_ideas.context.log(f"idea {number}, round {turn} of {turns}: {note}")
            if changed is None:
                self.found_ideas.give_up(self._written(draft), note)
                return
            if changed == draft:
                break
            draft = changed
        self.taken[draft.saying] = "it was proposed before"
        self.found_ideas.finalise(self._written(draft))

    def _reflect(self, draft: Draft) -> tuple[Draft | None, str]:
        """Return the draft after one round, and what the round did; None where nothing can take its place."""
        objection = self._objection(draft.candidate)
        if objection is not None:
            other = self._next_sound()
            if other is None:
                return None, f"{objection}, and nothing is left to take its place"
            return Draft(other), f"exchanged {draft.saying.sentence!r}: {objection}"
        if draft.is_sharp:
            return draft, "nothing changes any more, so no further round is needed"
        return draft.sharpened(), "new and measurable; decision rule, controls and doubts are written out"

    def _next_sound(self) -> Candidate | None:
        """Return the next candidate to which nothing can be objected."""
        while self.supply:
            candidate = self.supply.popleft()
            if self._objection(candidate) is None:
                return candidate
        return None

    def _objection(self, candidate: Candidate) -> str | None:
        """Return why a claim is not worth an experiment; the request's own is tried as far as it can be."""
        saying = candidate.saying
        if saying in self.taken:
            return self.taken[saying]
        if candidate.why == OWN:
            return misread(saying)
        if saying in self.fleet:
            return f"an earlier idea of the fleet claims it: {self.fleet[saying]!r}"
        return misread(saying) or obstacle(saying)

    def _written(self, draft: Draft) -> Idea:
        saying = draft.saying
        look_ups = self.found_ideas.look_ups
        numbers = look_ups.search(f"{saying.form.phrase()} {saying.metric.title}")
        related_work = look_ups.related_work([(number, "") for number in numbers], "")
        is_own = draft.candidate.why == OWN
        parts = [related_work, quoted(self.spec.idea)]
        if saying in self.fleet:
            parts.append(f"An earlier idea of this fleet claims the same: “{self.fleet[saying]}”")
        return write(
            draft,
            related_work="\n".join(parts),
            filled_in=self.reading.filled_in if is_own else (),
        )

    def _say_what_was_read(self) -> None:
        context = self.found_ideas.context
        if self.reading.trouble:
            context.log(
                "the text is not read as a claim that can be measured here, so what is nearest to its words "
                f"is proposed: {self.reading.trouble[:SAID_MAX]}",
                "warning",
            )
        for note in self.reading.filled_in:
            context.log(note)

    def _pass_over_what_is_there(self) -> None:
        """Take what an earlier attempt finalised out of the supply."""
        there = {idea.short_hypothesis for idea in self.found_ideas.ideas}
        self.taken |= {
            each.saying: "it was proposed before" for each in self.supply if each.saying.sentence in there
        }
