"""Reports this pod to the fleet: its state and abilities; receives its orders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote

from events.catalog import RunHeartbeat
from events.delivery.sender import Telemetry as Spool
from events.queue.claims import Claim
from pod_worker.delivery import DeliveryReport
from pod_worker.gpu import Capabilities, Gauges, Telemetry

log = logging.getLogger(__name__)

IN_URI: Final = "/-._~:@!$&'()*+,;="  # what stands in a URI's path as it is

State = Literal["starting", "idle", "busy", "suspended", "draining", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReport:
    """A pod's entry in the roster."""

    id: str
    pod: str
    mode: str
    region: str | None
    isolation: str
    pipeline_user: str
    kinds: tuple[str, ...]
    state: State
    run_id: str | None
    attempt: int | None
    device: str | None
    capabilities: Capabilities
    telemetry: Telemetry
    version: str
    started_at: datetime
    delivery: DeliveryReport | None = None


@dataclass(frozen=True, slots=True)
class PodOrders:
    """The orders for a pod."""

    drain: bool


class Reports(Protocol):
    """The port of reports."""

    def report(self, report: PodReport) -> PodOrders:
        """Store the report and return the orders. Raises `Transient`."""
        ...


@dataclass(slots=True)
class Standing:
    """The state of the worker's main thread, for its reports."""

    kinds: tuple[str, ...] = ()
    device: str | None = None
    state: State = "starting"
    claim: Claim | None = None


@dataclass(slots=True)
class Roster:
    """Reports one pod; `drained` turns true when the fleet orders it, and stays so."""

    reports: Reports
    gauges: Gauges
    spool: Spool
    identity: dict[str, Any]
    delivery: Callable[[], DeliveryReport | None] = lambda: None
    standing: Standing = field(default_factory=Standing)
    drained: bool = False

    def run_once(self) -> PodOrders:
        """Report now; a running attempt also gets a heartbeat event."""
        now = self.standing
        telemetry = self.gauges.sample()
        if now.claim is not None:
            beat = RunHeartbeat(
                cpu_util=telemetry.cpu_util,
                memory_mib=telemetry.memory_mib,
                gpu_util=telemetry.gpu_util,
                gpu_memory_mib=telemetry.gpu_memory_mib,
                gpu_temperature_c=telemetry.gpu_temperature_c,
            )
            claim, source = now.claim, source_of(self.identity["id"], now.claim)
            self.spool.put(claim.attempt_id, source, beat, token=claim.token)
        report = PodReport(
            **self.identity,
            kinds=now.kinds,
            state="draining" if self.drained and now.state == "busy" else now.state,
            run_id=None if now.claim is None else now.claim.run_id,
            attempt=None if now.claim is None else now.claim.attempt,
            device=now.device,
            capabilities=self.gauges.capabilities(),
            telemetry=telemetry,
            delivery=self.delivery(),
        )
        orders = self.reports.report(report)
        self.drained = self.drained or orders.drain
        return orders


def source_of(pod_id: str, claim: Claim) -> str:
    """Return the CloudEvents source of an attempt's events: a URI, whatever the pod is called."""
    return f"//podfleet/pods/{quote(pod_id, safe=IN_URI)}/runs/{claim.run_id}/attempts/{claim.attempt}"


def report_fields(report: PodReport) -> dict[str, Any]:
    """Return the stored fields of a pod's entry."""
    fields = {
        "pod": report.pod,
        "mode": report.mode,
        "region": report.region,
        "kinds": list(report.kinds),
        "state": report.state,
        "runId": report.run_id,
        "attempt": report.attempt,
        "version": report.version,
        "capabilities": {
            "device": report.device,
            "isolation": report.isolation,
            "pipeline_user": report.pipeline_user,
            **asdict(report.capabilities),
        },
        "telemetry": asdict(report.telemetry),
    }
    told = {_camel(name): _camels(value) for name, value in fields.items()}
    if report.delivery is not None:
        told["delivery"] = _delivery(report.delivery)
    return told


def _delivery(report: DeliveryReport) -> dict[str, Any]:
    failures = [{"code": code, "count": count} for code, count in sorted(report.upload_failures.items())]
    known = {_camel(name): value for name, value in asdict(report).items()}
    return {**known, "uploadFailures": failures}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _camels(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_camel(name): _camels(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_camels(each) for each in value]
    return value
