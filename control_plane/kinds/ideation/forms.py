"""Parses the forms of hypotheses into the request bodies of the API."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import StringConstraints

from control_plane.kinds.ideation.api import Launch, NewHypothesisBody
from control_plane.server.web.forms.fields import FormWithParts, Unfit, read_body, typed_lines, whole
from control_plane.server.web.forms.parts import options_in


class HypothesisRunForm(FormWithParts):
    """A run of a hypothesis; an empty field means the default of the specification.

    `pressed` names the page whose button was pressed.
    """

    preset: str = ""
    dataset: str = ""
    seed: str = ""
    review: str = ""
    researcher: str = ""
    pressed: Annotated[str, StringConstraints(max_length=26)] = ""

    def spec(self) -> dict[str, Any]:
        """Return the chosen options as a specification. Raises `Unfit`."""
        texts = {"preset": self.preset, "dataset": self.dataset.strip(), "review": self.review}
        texts |= {"researcher": self.researcher}
        spec: dict[str, Any] = {name: text for name, text in texts.items() if text}
        if self.seed.strip():
            spec["seed"] = whole(self.seed)
            if not isinstance(spec["seed"], int):
                raise Unfit(["Seed: a whole number"])
        return spec


class ProposalForm(HypothesisRunForm):
    """A new hypothesis."""

    title: str = ""
    idea: str = ""
    additional_context: str = ""
    enable_ideation: str = ""
    reflections: str = "3"
    max_num_generations: str = "5"
    confirmed: str = ""

    def body(self) -> NewHypothesisBody:
        """Return the hypothesis. Raises `Unfit`."""
        wanted: dict[str, Any] = {
            "title": self.title.strip(),
            "idea": typed_lines(self.idea).strip(),
            "additional_context": typed_lines(self.additional_context).strip(),
            "enable_ideation": self.enable_ideation != "",
            "spec": self.spec(),
            **options_in(self.typed).model_dump(),
        }
        if wanted["enable_ideation"]:
            wanted["reflections"] = whole(self.reflections)
            wanted["max_num_generations"] = whole(self.max_num_generations)
        return read_body(NewHypothesisBody, wanted)


class LaunchForm(HypothesisRunForm):
    """A run of a hypothesis."""

    idea_index: str = ""
    confirmed: str = ""

    def body(self) -> Launch:
        """Return the run to launch. Raises `Unfit`."""
        index = whole(self.idea_index) if self.idea_index else None
        options = options_in(self.typed).model_dump()
        return read_body(Launch, {"idea_index": index, "spec": self.spec(), **options})
