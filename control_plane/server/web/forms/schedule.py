"""The form of a schedule, and the schedule that it describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from control_plane.runs.schedules.service import WantedRun, WantedSchedule
from control_plane.server.api.contract.bodies import NewSchedule, RunBody
from control_plane.server.web.forms.fields import FormWithParts, Unfit, read_body
from control_plane.server.web.forms.parts import (
    Input,
    Part,
    option_parts,
    options_in,
    shown,
    typed_as,
    values_in,
)
from control_plane.server.web.forms.typed import read_json
from events.answers.schedules import Schedule
from events.kinds import KINDS, RUN_KINDS
from events.kinds.declaring.fields import fields_of, schema_of

# A schedule itself says when its runs start; their priority stands among its own fields.
ELSEWHERE: Final = ("not_before", "priority")
ASKED: Final = "asked"  # before the names of the fields that a kind's schedule is asked for


class ScheduleForm(FormWithParts):
    """A new schedule; `do` names the button that was pressed."""

    id: str = ""
    cron: str = ""
    time_zone: str = "UTC"
    group: str = ""
    kind: str = min(RUN_KINDS)
    spec: str = ""
    priority: str = "0"
    missed: str = "one"
    overlap: str = "allow"
    do: str = ""

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleForm:
        """Return the filled-in form of a schedule."""
        form = cls(
            id=schedule.id,
            cron=schedule.cron,
            time_zone=schedule.time_zone,
            missed=schedule.missed,
            overlap=schedule.overlap,
        )
        run = schedule.run
        if run is None:
            return form.model_copy(update={"group": schedule.group or ""})
        asked = [part for kind, part in asked_parts() if kind == run.kind]
        fields = {each.path[-1] for part in asked for each in part.fields}
        spec = {name: value for name, value in run.spec.items() if name not in fields}
        options = {**msgspec.structs.asdict(run), "secrets": run.secrets or (), "project": run.project or ""}
        body = {**options, ASKED: {run.kind: run.spec}}
        typed = {
            "kind": run.kind,
            "spec": json.dumps(spec, indent=2, ensure_ascii=False) if spec else "",
            "priority": str(run.priority),
            "typed": typed_as([*asked, *option_parts(ELSEWHERE)], body),
        }
        return form.model_copy(update=typed)

    def shown(self) -> list[tuple[Part, list[Input]]]:
        """Return the parts as the page shows them: the fields of kinds, then the options of a run."""
        asked = [part for _, part in asked_parts()]
        return shown([*asked, *option_parts(ELSEWHERE)], self.typed, {})

    def changed(self, schedule: Schedule, by: str) -> WantedSchedule:
        """Return a schedule with the changes of the form. Raises `Unfit`."""
        return replace(self.wanted(by), id=schedule.id, paused=schedule.paused)

    def wanted(self, by: str) -> WantedSchedule:
        """Return the schedule. Raises `Unfit` with all problems at once."""
        problems: list[str] = []
        body: dict[str, Any] = {
            "id": self.id.strip() or None,
            "cron": self.cron.strip(),
            "time_zone": self.time_zone.strip(),
            "missed": self.missed,
            "overlap": self.overlap,
        }
        if group := self.group.strip():
            return self._of_group(body, group, by)
        run: dict[str, Any] = {"kind": self.kind}
        try:
            run["spec"] = self._spec()
        except Unfit as unfit:
            problems += unfit.problems
        try:
            run["priority"] = int(self.priority.strip() or "0")
        except ValueError:
            problems.append("Priority: a whole number from -100 to 100")
        try:
            run |= {name: value for name, value in self._options().items() if name not in ELSEWHERE}
        except Unfit as unfit:
            problems += unfit.problems
        for form, typed in ((RunBody, run), (NewSchedule, {**body, "run": {"kind": "any"}})):
            try:
                read_body(form, typed)
            except Unfit as unfit:
                problems += unfit.problems
        if problems:
            raise Unfit(problems)
        return WantedSchedule(**{**body, "id": body["id"] or ""}, run=WantedRun(**run), by=by, named_by=by)

    def _of_group(self, body: dict[str, Any], group: str, by: str) -> WantedSchedule:
        problems = []
        if self.spec.strip():
            problems.append("Specification: a group has its own; leave it empty, or the group")
        try:
            read_body(NewSchedule, {**body, "group": group})
        except Unfit as unfit:
            problems += unfit.problems
        if problems:
            raise Unfit(problems)
        return WantedSchedule(**{**body, "id": body["id"] or ""}, group=group, by=by)

    def _spec(self) -> dict[str, Any]:
        """Return the specification: what its text says, and the fields that stand by themselves."""
        spec = read_spec_text(self.spec)
        for kind, part in asked_parts():
            given = values_in(part, self.typed)
            if given and kind != self.kind:
                raise Unfit([f"{part.title}: leave these fields empty for a run of another kind"])
            if twice := [name for name in given if name in spec]:
                raise Unfit([f"Specification: `{twice[0]}` has a field of its own above; name it once"])
            spec |= given
        return spec

    def _options(self) -> dict[str, Any]:
        return options_in(self.typed, ELSEWHERE).model_dump()


def asked_parts() -> Iterator[tuple[str, Part]]:
    """Yield each kind with the fields of its specification that a schedule is asked for, if it names any."""
    for name in sorted(RUN_KINDS):
        kind = KINDS[name]
        if kind.quick is not None and kind.quick.scheduled:
            known = {each.path[-1]: each for each in fields_of(schema_of(kind.spec))}
            # each may stand in the specification instead
            asked = [replace(known[field], is_required=False) for field in kind.quick.scheduled]
            yield name, Part(name.capitalize(), (ASKED, name), asked, "Its other fields stand below.")


def read_spec_text(text: str) -> dict[str, Any]:
    """Return the specification in a text area; an empty text gives one without fields. Raises `Unfit`."""
    if not text.strip():
        return {}
    try:
        found = read_json(text)
    except ValueError as error:
        raise Unfit([f"Specification: {error}"]) from None
    if not isinstance(found, dict):
        raise Unfit(['Specification: a JSON object, as in {"time_limit_s": 600}'])
    return found
