"""Errors by what the catcher should do.

Each has a stable `code` that programs may compare, and a message for people with the next step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from events.text.attempt_id import AttemptId


class PodfleetError(Exception):
    """Base class of the errors that this project raises on purpose."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Transient(PodfleetError):
    """The other side cannot answer now: try again later, nothing was decided."""

    def __init__(self, code: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(code, message)
        self.retry_after_s = retry_after_s


class Barred(Transient):
    """The key or token has no access there: work that needs it waits until people change that."""


class Rejected(PodfleetError):
    """The request is wrong: report it to the caller, and do not repeat it."""


class NotFound(Rejected):
    """The caller named something that does not exist."""


class Gone(Rejected):
    """The caller named something that was deleted."""


class Conflict(Rejected):
    """The caller came too late, or asks for what the current state forbids."""


class OutOfDate(Conflict):
    """The caller decided on a state that is not the present one: look again."""


class NotMeasurable(Rejected):
    """What is claimed cannot be measured as it is said.

    `words` are those that are not understood, `measurable` what can be measured, by its sort, and `nearest`
    claims that can be.
    """

    def __init__(
        self,
        message: str,
        *,
        words: Sequence[str] = (),
        measurable: Mapping[str, Sequence[str]] | None = None,
        nearest: Sequence[str] = (),
    ) -> None:
        super().__init__("not_measurable", message)
        self.words = tuple(words)
        self.measurable = measurable or {}
        self.nearest = tuple(nearest)


class LeaseLost(PodfleetError):
    """Another owner may hold the run: stop, write nothing."""

    def __init__(self, attempt_id: AttemptId) -> None:
        super().__init__("lease_lost", f"{attempt_id.words} is no longer ours")


class ConfigError(PodfleetError):
    """The configuration cannot work; lists every problem at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("CONFIG", "\n".join(problems))
        self.problems = tuple(problems)


class PipelineError(Exception):
    """A pipeline cannot go on, for a reason that has a code of its own."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class GivenBack(Exception):
    """A pipeline gives its run back, unharmed, for another attempt to go on; its text is the reason."""


class Canceled(BaseException):
    """The pipeline was asked to stop. No `Exception`, so that no pipeline swallows it."""
