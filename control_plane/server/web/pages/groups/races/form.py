"""The form of a new race: the fields of its kind, and which pods run a lane."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.server.api.contract.race_bodies import OF_RACE, RaceBody
from control_plane.server.web.forms.fields import Unfit, read_body
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
    def like(cls, kind: Kind, race: Race) -> RaceForm:
        """Return the form filled in as a race was."""
        typed = dict(RunForm.like(kind, {"spec": race.spec}).typed)
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
        run = self.run.body().model_dump(exclude_none=True, exclude={"not_before"})
        if len(self.ticked) < 2:
            raise Unfit([NOTHING_TICKED], {"": NOTHING_TICKED})
        lanes = [{"pod": pod, **_parameters(pod, self.own(pod))} for pod in self.ticked]
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
    """Return fields of a lane's own as they are typed."""
    return ", ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in parameters.items()
    )


def _parameters(pod: str, text: str) -> dict[str, Any]:
    """Return the fields of a lane's own, such as `threads=4, n=100`. Raises `Unfit`."""
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            problem = f"{pod}: {part[:80]!r} is not name=value, such as threads=4"
            raise Unfit([problem], {"": problem})
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = value.strip()
    return {"parameters": found} if found else {}


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        problem = f"{name}: a number of seconds"
        raise Unfit([problem], {"": problem}) from None
