"""Parses the fields of a form into the types of the program; an invalid value gets a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Self, TypeVar

from fastapi import Request
from pydantic import BaseModel, StringConstraints, ValidationError

from control_plane.server.api.contract.bodies import Body, ReviewBody, Storable

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
    "overlap": "While a run is active",
    "note": "Note",
}


class Unfit(Exception):
    """The form is invalid; `problems` are sentences for the person who filled it in.

    `fields` has the same problems by the names of the fields.
    """

    def __init__(self, problems: Sequence[str], fields: Mapping[str, str] | None = None) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
        self.fields = fields or {}


class Form(BaseModel):
    """Base class of the forms: every field is the typed text, so that it can be shown again."""


class FormWithParts(Form):
    """A form that has parts made from a schema beside its own fields; `typed` are all its texts."""

    typed: dict[str, str] = {}

    @classmethod
    def read(cls, typed: Mapping[str, str]) -> Self:
        """Return the form with these texts."""
        own = {name: typed[name] for name in cls.model_fields if name in typed and name != "typed"}
        return cls.model_validate({**own, "typed": typed})


async def typed_texts(request: Request) -> dict[str, str]:
    """Return the texts that a browser sent, by the names of the fields."""
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


class JudgedBy(Body):
    """The author of a verdict."""

    reviewer: Annotated[str, StringConstraints(max_length=REVIEWER_CHARS_MAX), Storable]


class ReviewForm(Form):
    """A person's verdict; `back` is the page that it was sent from."""

    verdict: str = ""
    notes: str = ""
    reviewer: str = ""
    incomplete: bool = False
    revise: bool = False
    seen: str = ""
    back: str = ""

    def body(self) -> ReviewBody:
        """Return the verdict. Raises `Unfit`."""
        fields = {"verdict": self.verdict, "notes": typed_lines(self.notes).strip()}
        seen = whole(self.seen) if self.seen else None
        return read_body(
            ReviewBody, {**fields, "incomplete": self.incomplete, "revise": self.revise, "seen": seen}
        )

    def judge(self) -> str:
        """Return the typed name. Raises `Unfit`."""
        return read_body(JudgedBy, {"reviewer": self.reviewer.strip()}).reviewer


def read_body(body: type[T], wanted: Mapping[str, Any]) -> T:
    """Return the typed values as a request body of the API. Raises `Unfit`."""
    try:
        return body.model_validate(wanted)
    except ValidationError as error:
        # One sentence a field: of a union, each branch would say its own.
        found = {str(each["loc"][0]): _words(each) for each in reversed(error.errors())}
        fields = dict(reversed(found.items()))
        problems = [f"{LABELS.get(field, field)}: {what}" for field, what in fields.items()]
        raise Unfit(problems, fields) from None


def _words(error: Mapping[str, Any]) -> str:
    """Return the problem of a field as a sentence for people."""
    place, limits = error["loc"], error.get("ctx", {})
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
        case "string_pattern_mismatch" if place == ("id",):
            what = "lower-case letters, digits and dashes, a letter or digit first, 63 at most"
        case "string_pattern_mismatch":
            what = f"text like {limits['pattern']}"
        case "literal_error":
            what = f"one of {limits['expected']}"
        case _:
            what = str(error["msg"]).removeprefix("Value error, ")
    return f"{place[1]}: {what}" if place[0] == "labels" and len(place) > 1 else what


def typed_lines(text: str) -> str:
    """Return text with line feeds only: browsers also send carriage returns."""
    return text.replace("\r\n", "\n")


def whole(text: str) -> int | str:
    """Return the typed number, or the text if it is no number."""
    digits = text.strip()
    is_number = digits.isascii() and digits.removeprefix("-").isdigit() and len(digits) <= 20
    return int(digits) if is_number else text
