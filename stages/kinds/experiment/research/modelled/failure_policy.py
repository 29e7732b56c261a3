"""The policy on a model's failure during the search: skip this step, or end the run; pure.

Law: a failure that no waiting mends ends the run at once, so that no run continues for hours without a
model. Every other failure costs a single step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from events.runtime.errors import PipelineError
from stages.kinds.experiment.research.proposal import NoProposal
from stages.models.model import ModelError, Trouble

# What the next question would meet as well, and what a person can do about it.
LASTING: Final[Mapping[Trouble, str]] = {
    "unauthorised": "check the key and what it may use",
    "quota": "raise the quota of the account, or name another model",
}
# What goes away by itself, perhaps: the next attempt may find the model again.
PASSING: Final[frozenset[Trouble]] = frozenset({"unreachable", "timed_out", "rate_limited"})
# What the next question need not meet: this one's answer was no good.
ANSWER_TROUBLES: Final[frozenset[Trouble]] = frozenset({"malformed", "cut_off", "refused"})


def given_up(error: ModelError) -> PipelineError | NoProposal:
    """Return what a step of the search raises for `error`."""
    if hint := LASTING.get(error.trouble):
        return PipelineError(code_of(error.trouble), f"{error.message}; {hint}")
    reason = f"the model gave no usable answer ({error.trouble}): {error.message}"
    return NoProposal(reason, code_of(error.trouble)) if error.trouble in PASSING else NoProposal(reason)


def code_of(trouble: Trouble) -> str:
    """Return the public code of a run that ends by `trouble`."""
    return f"MODEL_{trouble.upper()}"
