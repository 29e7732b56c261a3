"""Values that the kind of a study's runs refuses: they are never submitted, and known as if they were tried.

Law: whether values are refused follows from the specification alone. What is kept here is a memory of it,
which another replica, or the next start, fills again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from control_plane.model.groups.members import Trial
from control_plane.model.groups.parameters import Values, in_json
from control_plane.model.groups.study import Study, identity
from control_plane.runs.groups.members import submission
from control_plane.runs.submission import order_of
from events.runtime.errors import Rejected
from events.text.truncation import brief

REFUSED_MAX: Final = 500  # of one study; a search that is refused more often is over
KEPT_MAX: Final = 200  # studies

# Proposes the values of slots, given those that were refused.
Propose = Callable[[Study, Sequence[Trial], int, Sequence[Values]], Awaitable[list[Values]]]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The values of the slots that follow; none where nothing is left to try, and then `why`."""

    values: Sequence[Values]
    why: str


@dataclass(slots=True)
class Known:
    """The values of one study that were refused, each with the first words of why."""

    run: bytes
    refused: dict[bytes, tuple[Values, str]] = field(default_factory=dict)
    accepted: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class Refusals:
    """Keeps what was refused of the studies that were proposed for lately."""

    known: OrderedDict[str, Known] = field(default_factory=OrderedDict)

    async def proposal(
        self, stored: Mapping[str, Any], study: Study, trials: Sequence[Trial], count: int, propose: Propose
    ) -> Proposal:
        """Return the values of the next slots of a study, none of which its kind refuses.

        Raises what `propose` raises.
        """
        known = self._of(stored)
        ran = {each.key or identity(each.values) for each in trials}
        while len(known.refused) <= REFUSED_MAX:
            before = len(known.refused)
            values = await propose(study, trials, count, [each for each, _ in known.refused.values()])
            allowed = [each for each in values if await self._is_allowed(stored, study, each, known, ran)]
            if allowed or len(known.refused) == before:
                return Proposal(allowed, _words(known))
            if trials:  # where what has run is refused as well, it is for a person to look
                await order_of(submission(stored, stored["next"], trials[0].values))
        return Proposal([], _words(known))

    async def _is_allowed(
        self, stored: Mapping[str, Any], study: Study, values: Values, known: Known, ran: set[bytes]
    ) -> bool:
        """Say whether values may be submitted; what has run, runs again as it is."""
        key = identity(values)
        if key in ran or key in known.accepted or study.reruns.is_baseline(values):
            return True
        if key not in known.refused:
            try:
                await order_of(submission(stored, stored["next"], values))
            except Rejected as error:
                known.refused[key] = (values, error.message)
            else:
                known.accepted = {*known.accepted, key} if len(known.accepted) < REFUSED_MAX else {key}
                return True
        return False

    def _of(self, stored: Mapping[str, Any]) -> Known:
        """Return what is known of a group; nothing once what its slots run has changed."""
        run = in_json([stored["run"], stored["plan"]["space"]])
        known = self.known.pop(stored["_id"], None)
        if known is None or known.run != run:
            known = Known(run)
        self.known[stored["_id"]] = known
        while len(self.known) > KEPT_MAX:
            self.known.popitem(last=False)
        return known


def _words(known: Known) -> str:
    """Return why nothing is left to try."""
    if not known.refused:
        return "nothing else is left to try"
    values, message = next(iter(known.refused.values()))
    shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
    count = len(known.refused)
    many = f"{count} combinations are" if count > 1 else "1 combination is"
    return f"nothing else is left to try: {many} refused, such as {brief(shown, 200)}: {brief(message, 300)}"
