"""The form of a schedule, and the schedule that it describes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import msgspec

from control_plane.runs.schedules.service import WantedRun, WantedSchedule
from control_plane.server.api.contract.bodies import NewSchedule, RunBody
from control_plane.server.web.forms.fields import FormWithParts, Unfit, read_body
from control_plane.server.web.forms.parts import option_parts, options_in, typed_as
from control_plane.server.web.forms.typed import read_json
from events.answers.schedules import Schedule
from events.kinds import RUN_KINDS

# A schedule itself says when its runs start; their priority stands among its own fields.
ELSEWHERE: Final = ("not_before", "priority")


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
        typed = {
            "kind": run.kind,
            "spec": json.dumps(run.spec, indent=2, ensure_ascii=False) if run.spec else "",
            "priority": str(run.priority),
            "typed": typed_as(
                option_parts(ELSEWHERE), {**msgspec.structs.asdict(run), "secrets": run.secrets or ()}
            ),
        }
        return form.model_copy(update=typed)

    def changed(self, schedule: Schedule, by: str) -> WantedSchedule:
        """Return a schedule with the changes of the form. Raises `Unfit`."""
        return replace(self.wanted(by), id=schedule.id, paused=schedule.paused)

    def wanted(self, by: str) -> WantedSchedule:
        """Return the schedule. Raises `Unfit` with all problems at once."""
        problems: list[str] = []
        body: dict[str, Any] = {
            "id": self.id.strip(),
            "cron": self.cron.strip(),
            "time_zone": self.time_zone.strip(),
            "missed": self.missed,
            "overlap": self.overlap,
        }
        if group := self.group.strip():
            return self._of_group(body, group, by)
        run: dict[str, Any] = {"kind": self.kind}
        try:
            run["spec"] = read_spec_text(self.spec)
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
        return WantedSchedule(**body, run=WantedRun(**run), by=by, named_by=by)

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
        return WantedSchedule(**body, group=group, by=by)

    def _options(self) -> dict[str, Any]:
        return options_in(self.typed, ELSEWHERE).model_dump()


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
