"""The errors of a client: an exception for each way to handle them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# What a person does next; the first that fits, by the code of the problem or by the status.
NEXT_STEPS: Final[Mapping[str | int, str]] = {
    "unknown_kind": "`podfleet kinds list` shows those that there are",
    "unknown_run": "`podfleet runs list` shows the runs that there are",
    "unknown_task": "`podfleet tasks list` shows those that there are",
    "unknown_hypothesis": "`podfleet hypotheses list` shows those that there are",
    "unknown_schedule": "`podfleet schedules list` shows those that there are",
    "unknown_group": "`podfleet groups list` shows those that there are",
    "unknown_artifact": "`podfleet artifacts list RUN` shows those of a run",
    "unknown_pod": "`podfleet pods list` shows those that there are",
    **dict.fromkeys(
        ("illegal_group_action", "round_has_begun", "changed_meanwhile"),
        "`podfleet groups show GROUP` says how it stands",
    ),
    **dict.fromkeys(
        ("illegal_task_action", "task_is_running"), "`podfleet tasks show TASK` says how it stands"
    ),
    "task_exists": "choose another name with `-p name=NAME`",
    "group_exists": "choose another name with `--name`",
    "schedule_exists": "choose another id, or remove that one with `podfleet schedules remove`",
    "idempotency_conflict": "take a new key for another run, or submit the same as before",
    401: "set PODFLEET_API_KEY beside CONTROL_PLANE_URL, both in the environment or both in .env, "
    "to a key of this control plane; in the folder of `podfleet up` none is needed",
    403: "ask for a key that may do this; `podfleet config show` says which one is sent",
    409: "`podfleet runs show ID` says how it stands",
    412: "`podfleet runs show ID`, or `podfleet groups show GROUP`, says how it stands",
    429: "wait a moment and try again",
    500: "the control plane's log says more; `podfleet doctor` looks at what it stands on",
    503: "wait a moment and try again; `podfleet doctor` says what is missing",
}
NO_ROUTE: Final = "http"  # the code of a problem that no part of the program gave its own


class ClientError(Exception):
    """Base class of the exceptions of a client; the text describes the problem for a person."""


class Unreachable(ClientError):
    """No answer in time, or no answer of a control plane that this client supports."""


class BadAddress(ClientError):
    """The address of the control plane is invalid."""


class Unsendable(ClientError):
    """A program, or its folder, cannot be sent."""


class Refused(ClientError):
    """The control plane refused: `status` of HTTP, `code` for programs, `detail` and `advice` for people.

    `retry_after_s` is after how many seconds to ask again, None where it was not said.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(problem.get("code", NO_ROUTE))
        self.detail = str(problem.get("detail", "refused"))
        self.advice = NEXT_STEPS.get(self.code) or NEXT_STEPS.get(status)
        after = problem.get("retry_after_s")
        self.retry_after_s = float(after) if isinstance(after, int | float) else None
        super().__init__(f"{status}: {self.detail}")


class Invalid(Refused):
    """The request is invalid: a repetition would fail again."""


class NotAllowed(Refused):
    """The key is missing or wrong, or may not do this."""


class NotFound(Refused):
    """The object does not exist."""

    @property
    def is_route(self) -> bool:
        """Say whether the route does not exist, because the control plane is too old."""
        return self.code == NO_ROUTE


class Gone(NotFound):
    """The object was deleted."""


class Conflict(Refused):
    """The present state does not allow the request: `detail` describes the state."""


class Busy(Refused):
    """Not accepted: the same request may be sent again, after `retry_after_s`."""


KINDS: Final[Mapping[int, type[Refused]]] = {
    **dict.fromkeys((400, 413, 415, 422), Invalid),
    **dict.fromkeys((401, 403), NotAllowed),
    404: NotFound,
    409: Conflict,
    410: Gone,
    412: Conflict,
    **dict.fromkeys((429, 503), Busy),
}


def refusal(status: int, problem: Mapping[str, Any]) -> Refused:
    """Return the exception for a refusal."""
    return KINDS.get(status, Refused)(status, problem)
