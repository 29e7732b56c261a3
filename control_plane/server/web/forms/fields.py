"""Parses the fields of a form into the types of the program; an invalid value gets a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, StringConstraints, ValidationError

from control_plane.server.api.contract.bodies import Body, Launch, NewHypothesisBody, ReviewBody, Storable

T = TypeVar("T", bound=BaseModel)

REVIEWER_CHARS_MAX: Final = 200
LABELS: Final = {
    "title": "Title",
    "idea": "Idea",
    "additional_context": "Additional context",
    "reflections": "Reflections",
    "max_num_generations": "Number of ideas",
    "idea_index": "Idea",
    "verdict": "Verdict",
    "notes": "Notes",
    "reviewer": "Reviewer",
    "id": "Name",
    "cron": "When",
    "time_zone": "Time zone",
    "kind": "Kind",
    "spec": "Specification",
    "priority": "Priority",
    "missed": "Missed times",
    "overlap": "While one still runs",
    "note": "Note",
}


class Unfit(Exception):
    """The form cannot be taken as it is; `problems` are sentences for the person who filled it in."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Form(BaseModel):
    """Root of the forms: every field is the text that was typed, so that it can be shown again."""


class RunOptions(Form):
    """What a run of a hypothesis may be told; what is left empty is the specification's own default."""

    preset: str = ""
    dataset: str = ""
    seed: str = ""
    review: str = ""

    def spec(self) -> dict[str, Any]:
        """Return what was chosen. Raises `Unfit`."""
        texts = {"preset": self.preset, "dataset": self.dataset.strip(), "review": self.review}
        spec: dict[str, Any] = {name: text for name, text in texts.items() if text}
        if self.seed.strip():
            spec["seed"] = _whole(self.seed)
            if not isinstance(spec["seed"], int):
                raise Unfit(["Seed: a whole number"])
        return spec


class ProposalForm(RunOptions):
    """A new hypothesis."""

    title: str = ""
    idea: str = ""
    additional_context: str = ""
    enable_ideation: str = ""
    reflections: str = "3"
    max_num_generations: str = "5"

    def body(self) -> NewHypothesisBody:
        """Return the hypothesis. Raises `Unfit`."""
        wanted: dict[str, Any] = {
            "title": self.title.strip(),
            "idea": typed_lines(self.idea).strip(),
            "additional_context": typed_lines(self.additional_context).strip(),
            "enable_ideation": self.enable_ideation != "",
            "spec": self.spec(),
        }
        if wanted["enable_ideation"]:
            wanted["reflections"] = _whole(self.reflections)
            wanted["max_num_generations"] = _whole(self.max_num_generations)
        return read_body(NewHypothesisBody, wanted)


class LaunchForm(RunOptions):
    """A run of a hypothesis."""

    idea_index: str = ""

    def body(self) -> Launch:
        """Return what to launch. Raises `Unfit`."""
        index = _whole(self.idea_index) if self.idea_index else None
        return read_body(Launch, {"idea_index": index, "spec": self.spec()})


class JudgedBy(Body):
    """Who gives a verdict."""

    reviewer: Annotated[str, StringConstraints(max_length=REVIEWER_CHARS_MAX), Storable]


class ReviewForm(Form):
    """A person's verdict; `back` says from which page it was given."""

    verdict: str = ""
    notes: str = ""
    reviewer: str = ""
    incomplete: bool = False
    revise: bool = False
    seen: str = ""
    back: str = ""

    def body(self) -> ReviewBody:
        """Return the verdict. Raises `Unfit`."""
        said = {"verdict": self.verdict, "notes": typed_lines(self.notes).strip()}
        seen = _whole(self.seen) if self.seen else None
        return read_body(
            ReviewBody, {**said, "incomplete": self.incomplete, "revise": self.revise, "seen": seen}
        )

    def judge(self) -> str:
        """Return the name that was typed. Raises `Unfit`."""
        return read_body(JudgedBy, {"reviewer": self.reviewer.strip()}).reviewer


def read_body(body: type[T], wanted: Mapping[str, Any]) -> T:
    """Return what was typed as the body that the API would take. Raises `Unfit`."""
    try:
        return body.model_validate(wanted)
    except ValidationError as error:
        # One sentence a field: of a union, each branch would say its own.
        problems = {str(each["loc"][0]): _words(each) for each in reversed(error.errors())}
        raise Unfit(list(reversed(problems.values()))) from None


def _words(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, in a sentence for people."""
    field, limits = str(error["loc"][0]), error.get("ctx", {})
    match error["type"]:
        case "string_too_short":
            what = "say something here"
        case "string_too_long":
            what = f"at most {limits['max_length']} characters"
        case "greater_than_equal":
            what = f"at least {limits['ge']}"
        case "less_than_equal":
            what = f"at most {limits['le']}"
        case "int_type":
            what = "a whole number"
        case "string_pattern_mismatch":
            what = "lower-case letters, digits and dashes, a letter or digit first, 63 at most"
        case "literal_error":
            what = f"one of {limits['expected']}"
        case _:
            what = str(error["msg"]).removeprefix("Value error, ")
    return f"{LABELS.get(field, field)}: {what}"


def typed_lines(text: str) -> str:
    """Return text with the line ends of everybody else: browsers send carriage returns too."""
    return text.replace("\r\n", "\n")


def _whole(text: str) -> int | str:
    """Return the number that was typed, or the text where it is none."""
    digits = text.strip()
    is_number = digits.isascii() and digits.removeprefix("-").isdigit() and len(digits) <= 20
    return int(digits) if is_number else text
