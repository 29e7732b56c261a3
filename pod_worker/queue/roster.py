"""Reports this pod to the fleet: its state and abilities; receives its orders."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote

from events.answers.pods import ResetOrder
from events.catalog import RunHeartbeat
from events.delivery.sender import Telemetry as Spool
from events.queue.claims import Claim
from events.queue.roster import LOOKED_AT_EVERY_S, REPORT_EVERY_S
from events.runtime.measured_clock import ALARM_S, THE_STORES, MeasuredClock, ahead_words
from events.text.attempt_id import AttemptId
from pod_worker.delivery import DeliveryReport
from pod_worker.health.check import Reported
from pod_worker.machine.gauges import Capabilities, Gauges, Telemetry
from pod_worker.services.orders import Outcome, reset_orders

log = logging.getLogger(__name__)

BEAT_SHARE: Final = 0.9  # of the usual time between two reports
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
    labels: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[Reported, ...] = ()
    clock_offset_s: float | None = None
    delivery: DeliveryReport | None = None
    resets: tuple[Outcome, ...] = ()
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class PodOrders:
    """The orders for a pod: to leave, and why it shall claim nothing, None where it may.

    It leaves for good with `drain`, else with `restart` to be started again.

    `suspects` are the names of checks that other pods report as failing, `now` is the store's moment, which
    old control planes do not tell. It reports every `report_every_s`, while somebody looks at it more often.
    """

    drain: bool
    restart: bool = False
    cordon: str | None = None
    quarantine: str | None = None
    suspects: tuple[str, ...] = ()
    now: datetime | None = None
    report_every_s: float = REPORT_EVERY_S
    resets: tuple[ResetOrder, ...] = ()

    @property
    def held_back(self) -> str | None:
        """Why the pod claims nothing, None where it claims."""
        if self.cordon is not None:
            return f"cordoned: {self.cordon}"
        return None if self.quarantine is None else f"in quarantine: {self.quarantine}"


class Reports(Protocol):
    """The port of reports."""

    def report(self, report: PodReport) -> PodOrders:
        """Store the report and return the orders. Raises `Transient`."""
        ...


class Tested(Protocol):
    """The checks of the pod."""

    def report(self) -> tuple[Reported, ...]: ...

    def suspect(self, names: Collection[str]) -> None: ...


class Resets(Protocol):
    """Carries out the orders to reset services."""

    def hear(self, orders: Sequence[ResetOrder]) -> None: ...

    def outcomes(self) -> tuple[Outcome, ...]: ...


class NoServices:
    """A pod without services."""

    def hear(self, orders: Sequence[ResetOrder]) -> None:
        """Leave it at that."""

    def outcomes(self) -> tuple[Outcome, ...]:
        return ()


@dataclass(slots=True)
class Standing:
    """The state of the worker's main thread, for its reports; it `has_claimed` before `claim` is served."""

    kinds: tuple[str, ...] = ()
    device: str | None = None
    state: State = "starting"
    claim: Claim | None = None
    has_claimed: bool = False


@dataclass(slots=True)
class Roster:
    """Reports one pod, and keeps its last orders; None before the first: until then it claims nothing.

    Each answer measures `clock`, which is the store's. It reports every `every_s` unless told to do so more
    often; what sets `hurry` has it report now.
    """

    reports: Reports
    gauges: Gauges
    spool: Spool
    identity: dict[str, Any]
    clock: MeasuredClock
    delivery: Callable[[], DeliveryReport | None] = lambda: None
    standing: Standing = field(default_factory=Standing)
    tested: Tested | None = None
    orders: PodOrders | None = None
    every_s: float = REPORT_EVERY_S
    hurry: threading.Event = field(default_factory=threading.Event)
    resets: Resets = field(default_factory=NoServices)
    claiming: threading.Lock = field(default_factory=threading.Lock)  # held while a claim is made
    is_clock_off: bool = False
    _beat: tuple[AttemptId, float] | None = None

    @property
    def drained(self) -> bool:
        """Say whether the fleet wants the worker to leave for good."""
        return self.orders is not None and self.orders.drain

    @property
    def restarted(self) -> bool:
        """Say whether the fleet wants the worker to leave, and to be started again."""
        return self.orders is not None and self.orders.restart and not self.orders.drain

    @property
    def is_sent_off(self) -> bool:
        """Say whether the fleet wants the worker to leave, for good or not."""
        return self.drained or self.restarted

    def pause_s(self) -> float:
        """Return how long it waits until the next report: an order makes that shorter, within bounds."""
        ordered_s = self.every_s if self.orders is None else self.orders.report_every_s
        return min(self.every_s, max(LOOKED_AT_EVERY_S, ordered_s))

    def may_claim(self) -> bool:
        """Say whether the pod may claim by its orders. Raises `Transient` while nobody tells them."""
        return (self.orders or self.run_once()).held_back is None

    def run_once(self) -> PodOrders:
        """Report now; a running attempt also gets a heartbeat event."""
        now = self.standing
        telemetry = self.gauges.sample()
        if now.claim is not None and self._is_beat_due(now.claim):
            beat = RunHeartbeat(
                cpu_util=telemetry.cpu_util,
                memory_mib=telemetry.memory_mib,
                gpu_util=telemetry.gpu_util,
                gpu_memory_mib=telemetry.gpu_memory_mib,
                gpu_temperature_c=telemetry.gpu_temperature_c,
            )
            claim, source = now.claim, source_of(self.identity["id"], now.claim)
            self.spool.put(claim.attempt_id, source, beat, token=claim.token)
            self._beat = (claim.attempt_id, self.clock.monotonic_s())
        report = PodReport(
            **self.identity,
            kinds=now.kinds,
            state="draining" if self.is_sent_off and now.state == "busy" else now.state,
            run_id=None if now.claim is None else now.claim.run_id,
            attempt=None if now.claim is None else now.claim.attempt,
            device=now.device,
            capabilities=self.gauges.capabilities(),
            telemetry=telemetry,
            checks=() if self.tested is None else self.tested.report(),
            clock_offset_s=self.clock_offset_s,
            delivery=self.delivery(),
            resets=self.resets.outcomes(),
        )
        asked_s = self.clock.monotonic_s()
        orders, before = self.reports.report(report), self.orders
        if orders.now is not None:
            self.clock.note(orders.now, asked_s=asked_s)
        self._tell()
        self.orders = orders
        self.resets.hear(orders.resets)
        if self.tested is not None:
            self.tested.suspect(orders.suspects)
        if orders.held_back != (before and before.held_back):
            log.warning(
                "pod.claims" if orders.held_back is None else "pod.held_back", extra={"why": orders.held_back}
            )
        return orders

    @property
    def clock_offset_s(self) -> float | None:
        """By how much the machine's clock is ahead of the store's, now; None if that was not measured."""
        return self.clock.machine_ahead_s

    def _is_beat_due(self, claim: Claim) -> bool:
        """Say whether the attempt's log gets a heartbeat: more reports make no more events."""
        if self._beat is None or self._beat[0] != claim.attempt_id:
            return True
        return self.clock.monotonic_s() - self._beat[1] >= BEAT_SHARE * self.every_s

    def _tell(self) -> None:
        """Log a clock that is off, once."""
        ahead_s = self.clock_offset_s or 0.0
        was_off, self.is_clock_off = self.is_clock_off, abs(ahead_s) >= ALARM_S
        if self.is_clock_off and not was_off:
            says = f"the clock of this machine is {ahead_words(ahead_s, THE_STORES)}"
            log.warning("clock.off", extra={"ahead_s": round(ahead_s, 3), "why": says})


def orders_of(
    own: Mapping[str, Any],
    cordon: Mapping[str, Any] | None,
    quarantine: Mapping[str, Any] | None,
    suspects: Sequence[str] = (),
    now: datetime | None = None,
    report_every_s: float = REPORT_EVERY_S,
    resets: object = (),
) -> PodOrders:
    """Return the orders that the fleet has for a pod; `own` are those to its worker."""
    cordoned, quarantined = (None if each is None else str(each["reason"]) for each in (cordon, quarantine))
    drain, restart = bool(own.get("drain")), bool(own.get("restart"))
    return PodOrders(
        drain, restart, cordoned, quarantined, tuple(suspects), now, report_every_s, reset_orders(resets)
    )


def source_of(pod_id: str, claim: Claim) -> str:
    """Return the CloudEvents source of an attempt's events: a URI, whatever the pod is called."""
    return f"//podfleet/pods/{quote(pod_id, safe=IN_URI)}/runs/{claim.run_id}/attempts/{claim.attempt}"


def report_fields(report: PodReport) -> dict[str, Any]:
    """Return the stored fields of a pod's entry."""
    capabilities = asdict(report.capabilities)
    fields: dict[str, Any] = {
        "pod": report.pod,
        "mode": report.mode,
        "region": report.region,
        "kinds": list(report.kinds),
        "state": report.state,
        "runId": report.run_id,
        "attempt": report.attempt,
        "version": report.version,
        "checks": [asdict(each) for each in report.checks],
        "resets": [asdict(each) for each in report.resets],
        "clock_offset_s": report.clock_offset_s,
        "usd_per_hour": report.usd_per_hour,
        "capabilities": {
            "device": report.device,
            "isolation": report.isolation,
            "pipeline_user": report.pipeline_user,
            **capabilities.pop("inventory"),
            **capabilities,
        },
        "telemetry": asdict(report.telemetry),
    }
    told = {_camel(name): _camels(value) for name, value in fields.items()}
    told["labels"] = dict(report.labels)  # their names are the operator's
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
