"""The values of the secrets that a run names: asked of the control plane with the attempt's run token alone.

Law: a value is kept in memory until the child has it, and is in no log, error or file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from events.answers.access.secrets import SecretValues
from events.delivery.control_plane_client import ControlPlane, bearer, odd
from events.queue.claims import Claim
from events.text.secret_names import USER_TOKEN

CALL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Values:
    """The values by their names, and the names of those that the run cannot have any more.

    The token of the run's user is to be renewed after `renew_in_s`, if it is among them.
    """

    values: dict[str, str] = field(repr=False)
    missing: tuple[str, ...] = ()
    renew_in_s: float | None = None


class Secrets(Protocol):
    """The port of secrets."""

    def fetch(self, claim: Claim) -> Values:
        """Return the values that the run of a claim names. Raises `Transient`, `LeaseLost`."""
        ...

    def renewed(self, claim: Claim) -> Values:
        """Return the token of the run's user alone, as it is now. Raises as `fetch`."""
        ...


@dataclass(frozen=True, slots=True)
class HttpSecrets:
    """Asks the control plane."""

    control_plane: ControlPlane

    def fetch(self, claim: Claim) -> Values:
        """Return the values that the run of a claim names. Raises `Transient`, `LeaseLost`."""
        return self._asked(claim, f"/api/runs/{claim.run_id}/secrets", claim.secrets)

    def renewed(self, claim: Claim) -> Values:
        """Return the token of the run's user alone, as it is now. Raises as `fetch`."""
        return self._asked(claim, f"/api/runs/{claim.run_id}/secrets?renewal=true", (USER_TOKEN,))

    def _asked(self, claim: Claim, path: str, names: Sequence[str]) -> Values:
        answer = self.control_plane.send("POST", path, headers=bearer(claim.run_token), timeout_s=CALL_S)
        found = answer.read(SecretValues, claim)
        if found.values.keys() | set(found.missing) != set(names):
            raise odd("it has other secrets than the run names")
        renew_in_s = found.renew_in_s if isinstance(found.renew_in_s, float) else None
        return Values(found.values, tuple(found.missing), renew_in_s)
