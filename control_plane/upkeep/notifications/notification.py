"""What a subscription can be told of: runs, groups, pods and schedules as notifications; pure.

Law: a notification has a key that follows from what is stored, so that whoever makes it again makes the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args
from urllib.parse import quote

import msgspec

from control_plane.model.groups.status import CLOSED
from control_plane.model.presentation import plain
from control_plane.model.quarantine.decision import Quarantine
from control_plane.reads.ledger.documents import project_of
from control_plane.upkeep.notifications.usage_level import NEAR, REACHED
from events.lifecycle import Status
from events.runtime.clock import timestamp

Type = Literal[
    "run.completed", "run.failed", "run.canceled", "run.review_wanted",
    "group.completed", "group.failed", "group.canceled",
    "pod.quarantined", "pod.disk_filling", "pod.disk_full",
    "project.quota_neared", "project.quota_reached", "schedule.failed", "webhook.test",
]  # fmt: skip
TYPES: Final[tuple[str, ...]] = get_args(Type)

TEXT_CHARS_MAX: Final = 1_000  # of a title, or of a message of a failure: a receiver shows it in a line
NUMBERS_MAX: Final = 50  # of a summary
LATE: Final = timedelta(
    days=6
)  # less than deliveries are kept: a change of a schedule tells no old slot again
BODY_BYTES_MAX: Final = 32 * 1024  # many receivers refuse larger ones, and each delivery keeps its own

_ENDS: Final[Mapping[Status, Type]] = {
    Status.COMPLETED: "run.completed",
    Status.HUMAN_VALIDATED: "run.completed",
    Status.HUMAN_REJECTED: "run.completed",
    Status.FAILED: "run.failed",
    Status.CANCELED: "run.canceled",
}
_LEVELS: Final[Mapping[tuple[str, int], Type]] = {
    ("project", NEAR): "project.quota_neared",
    ("project", REACHED): "project.quota_reached",
    ("pod", NEAR): "pod.disk_filling",
    ("pod", REACHED): "pod.disk_full",
}
_GROUP_ENDS: Final[Mapping[str, Type]] = {
    "COMPLETED": "group.completed",
    "FAILED": "group.failed",
    "CANCELED": "group.canceled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """Something that happened; what it lacks, as a pod has no kind, is None or empty."""

    key: str
    type: Type
    at: datetime
    subject: str  # as the audit log names it: run/ID, group/ID, pod/NAME
    data: Mapping[str, Any]
    project: str | None = None
    kind: str | None = None
    owner: str | None = None  # who submitted it
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise `TypeError` for what a hand made of a stored moment: it holds up no other one."""
        if not isinstance(self.at, datetime):
            raise TypeError("the moment of what happened is none")

    def body(self) -> str:
        """Return it as JSON: `type`, `timestamp` and `data`, of `BODY_BYTES_MAX` bytes at most."""
        told: dict[str, Any] = {"type": self.type, "timestamp": timestamp(self.at), "data": plain(self.data)}
        for largest in ("summary", "labels", "error", "title"):
            text = msgspec.json.encode(told)
            if len(text) <= BODY_BYTES_MAX:
                return text.decode()
            told["data"].pop(largest, None)
        return msgspec.json.encode({**told, "data": {"id": _cut(self.data.get("id"))}}).decode()


def of_end(run: Mapping[str, Any], owner: str | None, site: str) -> Notification | None:
    """Return what a stored run that has ended tells; None where it has not."""
    kind = _ENDS.get(Status(run["status"]))
    if kind is None:
        return None
    at: datetime = run["finishedAt"]
    return _of_run(run, kind, f"run/{run['_id']}/ended", at, owner, site)


def of_review(
    run: Mapping[str, Any], asked_at: datetime, owner: str | None, site: str
) -> Notification | None:
    """Return what a stored run tells whose attempt ended at `asked_at`; None where it wants no review."""
    if run["status"] != Status.AWAITING_HUMAN:
        return None
    key = f"run/{run['_id']}/review/{run['attempt']}"
    return _of_run(run, "run.review_wanted", key, asked_at, owner, site)


def _of_run(
    run: Mapping[str, Any], type_: Type, key: str, at: datetime, owner: str | None, site: str
) -> Notification:
    project, labels = project_of(run["classKey"]), _labels(run.get("labels"))
    error, run_id = run.get("error"), str(run["_id"])
    data: dict[str, Any] = {
        "id": run_id,
        "kind": _cut(run["kind"]),
        "title": _cut(run.get("title")),
        "status": run["status"],
        "project": project,
        "labels": labels,
        "submittedBy": owner,
        "attempt": run["attempt"],
        "url": f"{site}/runs/{quote(run_id, safe='')}",
        "summary": _numbers(run.get("summary")),
    }
    if type_ == "run.failed" and isinstance(error, Mapping):
        data["error"] = {name: _cut(error.get(name)) for name in ("code", "message", "stage", "fault")}
    return Notification(
        key=key, type=type_, at=at, subject=f"run/{run_id}", data=data, project=project,
        kind=str(run["kind"]), owner=owner, labels=labels,
    )  # fmt: skip


def of_group(group: Mapping[str, Any], site: str) -> list[Notification]:
    """Return what a stored group tells of each time that it ended, as far as its journal goes back."""
    found, name, run = [], str(group["_id"]), group.get("run") or {}
    kind, project, labels = run.get("kind"), run.get("project"), _labels(run.get("labels"))
    for line in group.get("journal") or ():
        if line["to"] not in CLOSED or line["from"] in CLOSED:
            continue
        data = {
            "id": name,
            "kind": _cut(kind),
            "status": line["to"],
            "reason": _cut(line.get("reason")),
            "counts": plain(group.get("counts")) if line["n"] == group["revision"] else None,
            "project": project,
            "labels": labels,
            "submittedBy": group.get("createdBy"),
            "url": f"{site}/groups/{quote(name, safe='')}",
        }
        found.append(
            Notification(
                key=f"group/{name}/{line['n']}", type=_GROUP_ENDS[line["to"]], at=line["at"],
                subject=f"group/{name}", data=data, project=project, kind=kind, owner=group.get("createdBy"),
                labels=labels,
            )
        )  # fmt: skip
    return found


def of_quarantines(quarantines: Sequence[Quarantine], site: str) -> list[Notification]:
    """Return what the quarantines tell: each pod once for each time that it is put in."""
    return [
        Notification(
            key=f"pod/{each.pod.name}/quarantined/{timestamp(each.since)}",
            type="pod.quarantined",
            at=each.since,
            subject=f"pod/{each.pod.name}",
            data={
                "id": each.pod.name,
                "reason": _cut(each.reason),
                "triedAgainAt": timestamp(each.try_at),
                "evidence": [{"code": one.code, "runId": one.run_id} for one in each.evidence],
                "url": f"{site}/pods",
            },
        )
        for each in quarantines
        if each.is_held
    ]


def of_level(stored: Mapping[str, Any], site: str) -> list[Notification]:
    """Return what the stored level of a use tells of each time that it rose, as far as those are kept."""
    family, _, name = str(stored["subject"]).partition("/")
    found = []
    for each in stored["crossings"]:
        if stored["updatedAt"] - each["at"] > LATE:
            continue
        data = {
            "id": name,
            "measure": stored["measure"],
            "path": _cut(stored.get("path")),
            "level": each["level"],
            "used": each["used"],
            "limit": each["most"],
            "url": f"{site}/projects" if family == "project" else f"{site}/pods",
        }
        found.append(
            Notification(
                key=f"level/{stored['_id']}/{each['n']}/{timestamp(each['at'])}",
                type=_LEVELS[family, each["level"]], at=each["at"], subject=str(stored["subject"]),
                data={field: value for field, value in data.items() if value is not None},
                project=name if family == "project" else None,
            )
        )  # fmt: skip
    return found


def of_schedule(schedule: Mapping[str, Any], site: str) -> Notification | None:
    """Return what a schedule tells whose slot was refused; None where that was long before it changed."""
    error, name, run = schedule["error"], str(schedule["_id"]), schedule.get("run") or {}
    if schedule["updatedAt"] - error["slot"] > LATE:
        return None
    data = {
        "id": name,
        "slot": timestamp(error["slot"]),
        "error": {"code": _cut(error["code"]), "message": _cut(error["message"])},
        "submittedBy": schedule.get("createdBy"),
        "url": f"{site}/schedules/{quote(name, safe='')}",
    }
    return Notification(
        key=f"schedule/{name}/failed/{timestamp(error['slot'])}", type="schedule.failed",
        at=schedule["updatedAt"], subject=f"schedule/{name}", data=data, project=run.get("project"),
        kind=run.get("kind"), owner=schedule.get("createdBy"), labels=_labels(run.get("labels")),
    )  # fmt: skip


def of_test(webhook_id: str, key: str, at: datetime, by: str) -> Notification:
    """Return what a person asks for who wants to see whether deliveries arrive."""
    data = {"id": webhook_id, "message": "podfleet can reach this receiver", "askedBy": by}
    return Notification(key=key, type="webhook.test", at=at, subject=f"webhook/{webhook_id}", data=data)


def _labels(stored: Any) -> dict[str, str]:
    if not isinstance(stored, Mapping):
        return {}
    return {str(name): str(value) for name, value in stored.items()}


def _numbers(summary: Any) -> dict[str, Any] | None:
    if not isinstance(summary, Mapping):
        return None
    found = [(str(name), value) for name, value in summary.items() if isinstance(value, int | float)]
    return {name: plain(value) for name, value in found[:NUMBERS_MAX]}


def _cut(text: Any) -> str | None:
    return text[:TEXT_CHARS_MAX] if isinstance(text, str) else None
