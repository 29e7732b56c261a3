"""The queue over HTTP, for pods without a database of their own: the control plane claims for them.

Law: no answer, or an odd one, never means "not applied": a claim whose answer was lost is found again by its
token before the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import httpx
import msgspec

from events.answers.worker.claims import ClaimAnswer, PodNote, RunOrders, SettledAnswer
from events.codec import moment
from events.delivery.control_plane_client import ControlPlane
from events.kinds.declaring.queues import Mode
from events.queue.claims import Claim, Node, Orders
from events.queue.matching import Seeker, WaitingClass
from events.queue.notes import Note
from events.queue.roster import REPORT_EVERY_S
from events.queue.settlement import End
from events.runtime.errors import Barred, ConfigError
from events.text.key_text import SECRET_CHARS
from pod_worker.queue.roster import PodOrders, PodReport, orders_of, report_fields

CALL_S: Final = 20.0
WAIT_S: Final = 3.0  # for a run; less than a worker may take to leave
NOBODYS: Final = "0" * SECRET_CHARS  # a token with which nobody claims

# What a control plane of the last release refuses in a report's parts, and what earlier ones refuse.
NEW: Final = frozenset({"resets", "usdPerHour"})
NEW_CAPABILITIES: Final = frozenset({"cpu", "disks", "engines", "models", "cuda", "services"})
NEW_OF_GPU: Final = frozenset({"computeCapability", "uuid"})
NEW_TELEMETRY: Final = frozenset({"gpuForeign"})
NEW_CHECKS: Final = frozenset({"cards"})
LATER: Final = frozenset({"checks", "delivery", "clockOffsetS", "labels"})
LATER_CAPABILITIES: Final = frozenset({"driver", "diskMib"})
LATER_TELEMETRY: Final = frozenset({"gpuFaults"})
T = TypeVar("T")


class _PodOrders(msgspec.Struct, frozen=True, rename="camel"):
    drain: bool
    restart: bool = False
    suspects: tuple[str, ...] = ()
    cordon: dict[str, Any] | None = None
    quarantine: dict[str, Any] | None = None
    now: datetime | None = None
    report_every_s: float = REPORT_EVERY_S
    resets: Any = ()


@dataclass(frozen=True, slots=True)
class HttpQueue:
    """The queue behind a control plane, which is asked with the pod's key."""

    control_plane: ControlPlane
    wait_s: float = WAIT_S

    def check(self, mode: Mode) -> datetime | None:
        """Check the key by an empty request; return the store's moment, None if it is not told.

        Raises `ConfigError` if the key may not claim, or `Transient`.
        """
        try:
            answer = self._ask("/api/claims/recover", {"token": NOBODYS, "mode": mode}, ClaimAnswer)
        except Barred as error:
            raise ConfigError([f"PODFLEET_API_KEY may not claim: {error.message}"]) from error
        return _moment(answer.now)

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        """Ask the control plane to claim a run, or to wait a little for one."""
        able = seeker.abilities
        body = {
            "token": token,
            "pod": seeker.pod,
            "mode": seeker.mode,
            "kinds": sorted(able.kinds),
            "gpu_gib": able.gpu_gib,
            "region": able.region,
            "labels": dict(able.labels),
            "wait_s": self.wait_s,
        }
        answer = self.control_plane.send("POST", "/api/claims", json=body, timeout_s=CALL_S)
        if answer.status == httpx.codes.UNPROCESSABLE_ENTITY:  # an earlier release knows no labels
            without = _without(body, {"labels"})
            answer = self.control_plane.send("POST", "/api/claims", json=without, timeout_s=CALL_S)
        return _claim(answer.read(ClaimAnswer), token)

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        """Find a claim by its token, in these queues."""
        body = {"token": token, "mode": "hybrid"}
        claim = _claim(self._ask("/api/claims/recover", body, ClaimAnswer), token)
        return claim if claim is not None and claim.collection in collections else None

    def renew(self, claim: Claim) -> Orders:
        """Extend the lease by a whole term."""
        found = self._of_run(claim, "renew", {}, RunOrders)
        return Orders(
            cancel=found.cancel,
            paused=found.paused,
            notes=_notes(found.notes),
            start_at=_moment(found.start_at),
            node=None if (node := found.node) is msgspec.UNSET else Node(node.rank, node.nodes, node.address),
            preempt=found.preempt is True,
            now=_moment(found.now),
        )

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        """End the attempt. The control plane draws its own jitter."""
        self._of_run(claim, "settle", {**asdict(how), "last": last, "root": root}, SettledAnswer)

    def report(self, report: PodReport) -> PodOrders:
        """Write the pod's entry in the roster; return the orders for the pod."""
        body = {"id": report.id, **report_fields(report), "startedAt": report.started_at.isoformat()}
        body["checks"] = [{**each, "at": each["at"].isoformat()} for each in body["checks"]]
        body["resets"] = [{**each, "at": each["at"].isoformat()} for each in body["resets"]]
        answer = self.control_plane.send("POST", "/api/pods", json=body, timeout_s=CALL_S)
        for earlier in (_of_last_release, _of_earlier_releases):
            if answer.status == httpx.codes.UNPROCESSABLE_ENTITY:
                body = earlier(body)
                answer = self.control_plane.send("POST", "/api/pods", json=body, timeout_s=CALL_S)
        told = answer.read(_PodOrders)
        return orders_of(
            {"drain": told.drain, "restart": told.restart},
            told.cordon,
            told.quarantine,
            told.suspects,
            told.now,
            told.report_every_s,
            told.resets,
        )

    def _of_run(self, claim: Claim, action: str, body: Mapping[str, Any], what: type[T]) -> T:
        headers = {"Podfleet-Run-Token": claim.run_token}
        path = f"/api/claims/{claim.run_id}/{action}"
        answer = self.control_plane.send("POST", path, json=body, headers=headers, timeout_s=CALL_S)
        return answer.read(what, claim)

    def _ask(self, path: str, body: Mapping[str, Any], what: type[T]) -> T:
        return self.control_plane.send("POST", path, json=body, timeout_s=CALL_S).read(what)


def _claim(answer: ClaimAnswer, token: str) -> Claim | None:
    found = answer.claim
    if found is None:
        return None
    return Claim(
        collection=found.collection,
        run_id=found.run_id,
        attempt=found.attempt,
        token=token,
        kind=found.kind,
        spec=found.spec,
        hypothesis_id=found.hypothesis_id,
        from_stage=found.from_stage,
        paused=found.paused,
        notes=_notes(found.notes),
        traceparent=found.traceparent,
        lease_s=found.lease_s,
        secrets=() if found.secrets is msgspec.UNSET else tuple(found.secrets),
        barrier=found.barrier is True,
    )


def _moment(told: str | msgspec.UnsetType) -> datetime | None:
    return None if told is msgspec.UNSET else moment(told)


def _notes(notes: Sequence[PodNote]) -> tuple[Note, ...]:
    return tuple(Note(each.number, each.text, each.by) for each in notes)


def _of_last_release(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report without what the control plane of the last release does not know."""
    capabilities = _without(body["capabilities"], NEW_CAPABILITIES)
    gpus = [_without(gpu, NEW_OF_GPU) for gpu in capabilities["gpus"]]
    telemetry = _without(body["telemetry"], NEW_TELEMETRY)
    return {
        **_without(body, NEW),
        "telemetry": telemetry,
        "capabilities": {**capabilities, "gpus": gpus},
        "checks": [each for each in body["checks"] if each["name"] not in NEW_CHECKS],
    }


def _of_earlier_releases(body: Mapping[str, Any]) -> dict[str, Any]:
    telemetry = _without(body["telemetry"], LATER_TELEMETRY)
    capabilities = _without(body["capabilities"], LATER_CAPABILITIES)
    return {**_without(body, LATER), "telemetry": telemetry, "capabilities": capabilities}


def _without(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
