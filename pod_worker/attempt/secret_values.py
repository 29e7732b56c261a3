"""The values of the secrets that a run names: asked of the control plane with the attempt's run token alone.

Law: a value is kept in memory until the child has it, and is in no log, error or file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from events.answers.access.secrets import SecretValues
from events.delivery.control_plane_client import ControlPlane, bearer, odd
from events.queue.claims import Claim

CALL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Values:
    """The values by their names, and the names of those that the run cannot have any more."""

    values: dict[str, str] = field(repr=False)
    missing: tuple[str, ...] = ()


class Secrets(Protocol):
    """The port of secrets."""

    def fetch(self, claim: Claim) -> Values:
        """Return the values that the run of a claim names. Raises `Transient`, `LeaseLost`."""
        ...


@dataclass(frozen=True, slots=True)
class HttpSecrets:
    """Asks the control plane."""

    control_plane: ControlPlane

    def fetch(self, claim: Claim) -> Values:
        """Return the values that the run of a claim names. Raises `Transient`, `LeaseLost`."""
        path = f"/api/runs/{claim.run_id}/secrets"
        answer = self.control_plane.send("POST", path, headers=bearer(claim.run_token), timeout_s=CALL_S)
        found = answer.read(SecretValues, claim)
        if found.values.keys() | set(found.missing) != set(claim.secrets):
            raise odd("it has other secrets than the run names")
        return Values(found.values, tuple(found.missing))
