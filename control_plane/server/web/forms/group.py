"""The form that changes a group: its limits, and as JSON its plan and what each slot runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from control_plane.model.groups.status import CLOSED
from control_plane.reads.comparison import flat
from control_plane.runs.groups.service import LIMITS
from control_plane.server.api.contract.bodies import Body
from control_plane.server.api.contract.group_bodies import GroupRun, PlanBody, posted
from control_plane.server.web.forms.fields import FormWithParts, Unfit, read_body
from control_plane.server.web.forms.typed import read_json
from events.answers.groups import Group

TEXT_CHARS_MAX: Final = 100_000  # of a plan or a run in a text area; longer ones are changed over the API
DIFFERENCES_MAX: Final = 50
KIND: Final = "kind"
_MODELS: Final = {get_args(each.model_fields[KIND].annotation)[0]: each
                  for each in get_args(get_args(PlanBody)[0])}  # fmt: skip
WORDS: Final[Mapping[str, str]] = {
    "parallel": "Runs at once",
    "stop_after_failures": "Stop after so many failures",
    "max_runs": "Runs at most",
    "target": "Target of the goal",
    "patience": "Trials without a better one",
    "max_seconds": "Seconds of a round at most",
    "max_cost_usd": "Cost of its members at most, in USD",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of which the form says something else than the group that is stored."""

    name: str
    stored: str
    typed: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a group is to be; None for a run that stays."""

    run: dict[str, Any] | None
    plan: dict[str, Any]


class _AnyPlan(Body):
    """A plan of any kind."""

    plan: PlanBody


class GroupForm(FormWithParts):
    """What a person typed; `revision` is that of the group that was shown."""

    revision: str = ""
    plan: str = ""
    run: str = ""

    @classmethod
    def of(cls, group: Group) -> GroupForm:
        """Return the filled-in form of a group."""
        plan = {name: value for name, value in group.plan.items() if name not in LIMITS}
        limits = {name: _written(group.plan.get(name)) for name in limits_of(group)}
        return cls(revision=str(group.revision), plan=_text(plan), run=_text(group.run), typed=limits)

    def wanted(self, group: Group) -> Change:
        """Return what is to be changed: of a round that has begun the limits alone. Raises `Unfit`."""
        limits, problems = dict[str, Any](), list[str]()
        for name in limits_of(group):
            text = self.typed.get(name, "").strip()
            try:
                if text:
                    limits[name] = read_json(text)
            except ValueError as error:
                problems.append(f"{WORDS[name]}: {error}")
        kept = {name: value for name, value in group.plan.items() if name not in LIMITS}
        if not is_whole(group):
            if problems:
                raise Unfit(problems)
            # what is stored stays as it is, also where a plan made today would have more fields
            read = _plan({**kept, **limits})
            return Change(None, {**kept, **{name: read[name] for name in LIMITS if name in read}})
        plan = _object("Plan", self.plan, problems)
        run = _object("What each slot runs", self.run, problems)
        if problems:
            raise Unfit(problems)
        return Change(posted(read_body(GroupRun, run)), _plan({**plan, **limits}))

    def differences(self, group: Group) -> list[Difference]:
        """Return in what the form differs from a group; nothing where it cannot be read."""
        try:
            wanted = self.wanted(group)
        except Unfit:
            return []
        stored = {"plan": group.plan, "run": group.run if wanted.run is not None else {}}
        before = dict(flat(stored))
        after = dict(flat({"plan": wanted.plan, "run": wanted.run or {}}))
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return [
            Difference(name, _written(before.get(name)), _written(after.get(name)))
            for name in names[:DIFFERENCES_MAX]
        ]


def _plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan as it is kept. Raises `Unfit` that names its fields."""
    kind = plan.get(KIND)
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        return posted(read_body(_AnyPlan, {"plan": plan}).plan)
    return posted(read_body(model, plan))


def limits_of(group: Group) -> list[str]:
    """Return the limits that the plan of a group has, in the order of their words."""
    model = _MODELS.get(group.plan.get(KIND))
    return [] if model is None else [name for name in WORDS if name in model.model_fields]


def is_whole(group: Group) -> bool:
    """Say whether more than the limits of a group can be changed here."""
    has_begun = group.status not in CLOSED and group.next > group.first
    return not has_begun and max(len(_text(group.plan)), len(_text(group.run))) <= TEXT_CHARS_MAX


def _object(what: str, text: str, problems: list[str]) -> dict[str, Any]:
    try:
        found = read_json(text)
    except ValueError as error:
        problems.append(f"{what}: {error}")
        return {}
    if not isinstance(found, dict):
        problems.append(f"{what}: a JSON object")
        return {}
    return found


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _written(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
