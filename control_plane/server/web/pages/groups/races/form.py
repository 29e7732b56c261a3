"""The form of a new race: the fields of its kind, and which pods run a lane."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.server.api.contract.race_bodies import OF_RACE, RaceBody
from control_plane.server.web.forms.fields import Unfit, read_body, typed_lines
from control_plane.server.web.forms.run import RunForm
from events.answers.plans.races import Race
from events.kinds.kind import Kind

LANE: Final = "lane."  # before the name of a pod in the name of its tick
OWN: Final = "own."
NOTHING_TICKED: Final = "tick at least two machines"


@dataclass(frozen=True, slots=True)
class RaceForm:
    """A new race of a kind: the typed texts by the names of the fields."""

    kind: Kind
    typed: Mapping[str, str]

    @classmethod
    def like(cls, kind: Kind, race: Race, run: Mapping[str, Any]) -> RaceForm:
        """Return the form filled in as a race was; `run` is what each of its lanes does."""
        typed = dict(RunForm.like(kind, run).typed)
        typed |= {f"{LANE}{each.pod}": "on" for each in race.lanes}
        typed |= {f"{OWN}{each.pod}": words_of(each.parameters) for each in race.lanes if each.parameters}
        goal = f"{'min' if race.measure.direction == 'lower' else 'max'}:{race.measure.name}"
        limits = {"ready_s": f"{race.ready_s:g}", "limit_s": f"{race.limit_s:g}", "measure": goal}
        return cls(kind, {**typed, **limits})

    @property
    def run(self) -> RunForm:
        """The form of what every lane does."""
        return RunForm(self.kind, self.typed)

    @property
    def ticked(self) -> list[str]:
        """The pods that are ticked."""
        return [name.removeprefix(LANE) for name in self.typed if name.startswith(LANE)]

    def own(self, pod: str) -> str:
        """Return the typed fields of a lane's own."""
        return self.typed.get(f"{OWN}{pod}", "")

    def body(self) -> RaceBody:
        """Return the race. Raises `Unfit`."""
        run = self.run.body().model_dump(exclude_none=True, exclude={"not_before", "after"})
        if len(self.ticked) < 2:
            raise _unfit(NOTHING_TICKED)
        own = {pod: parameters_in(pod, self.own(pod)) for pod in self.ticked}
        lanes = [{"pod": pod, **({"parameters": each} if each else {})} for pod, each in own.items()]
        wanted: dict[str, Any] = {**run, "lanes": lanes}
        for name in ("ready_s", "limit_s"):
            if text := self.typed.get(name, "").strip():
                wanted[name] = _number(name, text)
        for name in ("name", "measure"):
            if text := self.typed.get(name, "").strip():
                wanted[name] = text
        try:
            return read_body(RaceBody, wanted)
        except Unfit as unfit:
            of_race = "; ".join(
                f"{name}: {words}" if name in OF_RACE else words for name, words in unfit.fields.items()
            )
            raise Unfit(unfit.problems, {"": of_race}) from None


def words_of(parameters: Mapping[str, Any]) -> str:
    """Return fields of a lane's own as they are typed: a line each, what could be read as JSON as JSON."""
    return "\n".join(f"{name}={_text_of(value)}" for name, value in parameters.items())


def parameters_in(pod: str, text: str) -> dict[str, Any]:
    """Return the fields of a lane's own, a line each, such as `threads=4`. Raises `Unfit`."""
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, typed_lines(text).split("\n"))):
        name, equals, value = line.partition("=")
        name = name.strip()
        if not equals or not name:
            raise _unfit(f"{pod}: {line[:80]!r} is not name=value, such as threads=4")
        if name in found:
            raise _unfit(f"{pod}: {name[:80]!r} is given twice")
        found[name] = _value_of(value.strip())
    return found


def _text_of(value: Any) -> str:
    is_plain = isinstance(value, str) and value == value.strip() and not set("\r\n") & {*value}
    return str(value) if is_plain and _value_of(value) == value else json.dumps(value)


def _value_of(text: str) -> Any:
    """Return the text's value as JSON, else the text itself, as the command line does."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _unfit(problem: str) -> Unfit:
    return Unfit([problem], {"": problem})


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _unfit(f"{name}: a number of seconds") from None
