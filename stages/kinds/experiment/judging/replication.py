"""Replication of a result that is too good: which attempt measured first, and which measures again; pure.

Law: the verdict on such a claim is given by an attempt that measures it itself, in units and with rows of
its own. An earlier attempt's measurement can request that, and never takes its place. The pods of earlier
attempts are taken from the control plane's record, and from no checkpoint.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from events.catalog import Conclusion
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.seeds import seed_for

PURPOSE: Final = "replication"  # of seeds
KEY_BYTES: Final = 32

Place = Literal["on another pod", "on the same pod"]


@dataclass(frozen=True, slots=True)
class Replication:
    """A second measurement by the pod `pod`; `first` are those that may have had a part in the first one.

    `by_reserve` is whether rows judged it that no first measurement opens.
    """

    first: Sequence[str]
    pod: str
    by_reserve: bool = False

    @property
    def place(self) -> Place:
        """Return where it was made; an unknown first pod counts as this one."""
        is_elsewhere = bool(self.pod and self.first) and not {self.pod, ""} & {*self.first}
        return "on another pod" if is_elsewhere else "on the same pod"

    def sentence(self, conclusion: Conclusion, *, with_name: bool) -> str:
        """Return what came of it; a paper does without the pod's name, which may hold digits."""
        asides = [self.pod] if with_name and self.pod else []
        if self.place == "on the same pod":
            asides.append("and on no other")
        where = ", ".join([self.place, *asides]) + "," * bool(asides)
        found = "holds there too" if conclusion == "supported" else "is not upheld there"
        rows = "judged by rows of the reserve, which no first measurement opens" * self.by_reserve
        return (
            f"The first measurement was too good to be believed of one run; it was replicated {where} "
            f"in other units, {rows or 'with rows hidden anew'}, and {found}."
        )

    def scores(self) -> dict[str, Any]:
        """Return it as the validation event carries it."""
        return {
            "place": self.place,
            "pod": self.pod,
            "first_pods": list(self.first),
            **({"by_reserve": True} if self.by_reserve else {}),
        }


def second_secret(fleet: str, run_seed: int) -> Secret:
    """Return the secret that hides the rows of a replication: the fleet's own, else a fresh one."""
    if fleet:
        return Secret.of_fleet(fleet, seed_for(run_seed, PURPOSE))
    return Secret(secrets.token_hex(KEY_BYTES))
