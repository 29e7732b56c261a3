"""A pod of today reports to a control plane of yesterday."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from events.delivery.control_plane_client import ControlPlane
from events.queue.abilities import Abilities
from events.queue.matching import Seeker
from events.runtime.clock import SystemClock
from pod_worker.delivery import DeliveryReport
from pod_worker.health.check import Reported
from pod_worker.machine.gauges import Capabilities, Telemetry
from pod_worker.machine.gpu import Gpu
from pod_worker.queue.http import HttpQueue
from pod_worker.queue.roster import PodReport

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = {"checks", "delivery", "clockOffsetS", "labels"}  # what the control plane of yesterday does not know
REPORT = PodReport(
    id="p/1", pod="p", mode="hybrid", region=None, kinds=("probe",), state="idle", run_id=None, attempt=None,
    device="cpu", capabilities=Capabilities(2, 1024.0, (Gpu("H100", 9.0, "9.0"),)),
    telemetry=Telemetry(0.5, 512.0), version="0", started_at=NOW,
    isolation="strict", pipeline_user="a user of its own",
    checks=(Reported("disk", True, None, "9 MiB free", NOW, None),), clock_offset_s=0.5,
    labels={"my_rack": "a4", "gpus": "0"},
    delivery=DeliveryReport(waiting=1, oldest_s=2.0, disk_free_bytes=3, upload_failures={"X": 1}),
)  # fmt: skip


NEW = {"cpu", "disks", "engines", "models", "cuda", "services"}


def report_to(refuses: bool, knows_labels: bool = False) -> tuple[Any, list[dict[str, Any]]]:
    """Report to a control plane that may refuse what is new; return the orders, and what was sent."""
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        has = sent[-1]["capabilities"]
        is_new = NEW & has.keys() or any("computeCapability" in gpu for gpu in has["gpus"])
        parts = sent[-1]["telemetry"].keys() | sent[-1]["capabilities"].keys()
        if refuses and is_new:
            return httpx.Response(422, json={"detail": "extra inputs are not permitted"})
        if (
            refuses
            and not knows_labels
            and (LATER & sent[-1].keys() or {"gpuFaults", "driver", "diskMib"} & parts)
        ):
            return httpx.Response(422, json={"detail": "extra inputs are not permitted"})
        return httpx.Response(
            200, json={"drain": True} if refuses else {"drain": False, "suspects": ["storage"]}
        )

    with httpx.Client(base_url="http://control", transport=httpx.MockTransport(answer)) as client:
        return HttpQueue(ControlPlane(client, SystemClock())).report(REPORT), sent


def test_a_report_tells_the_checks_and_brings_what_others_suspect() -> None:
    orders, (sent,) = report_to(refuses=False)
    assert (orders.drain, orders.suspects) == (False, ("storage",))
    assert sent["checks"] == [
        {"name": "disk", "ok": True, "code": None, "message": "9 MiB free", "kinds": None,
         "at": "2026-01-01T00:00:00+00:00"}
    ]  # fmt: skip
    assert sent["labels"] == {"my_rack": "a4", "gpus": "0"}, "names of labels stay as they are"


def test_a_control_plane_of_yesterday_gets_the_report_without_what_it_refuses() -> None:
    orders, sent = report_to(refuses=True)
    assert (orders.drain, orders.suspects) == (True, ())
    assert [LATER & each.keys() for each in sent] == [LATER, LATER, set()]
    assert sent[2]["telemetry"]["memoryMib"] == 512.0
    _, sent = report_to(refuses=True, knows_labels=True)
    assert [LATER & each.keys() for each in sent] == [LATER, LATER], "it is told what it knows"
    assert sent[1]["capabilities"]["gpus"] == [{"name": "H100", "memoryMib": 9.0}]


@pytest.mark.parametrize("refuses", [False, True])
def test_a_claim_tells_the_labels_to_a_control_plane_that_knows_them(refuses: bool) -> None:
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        if refuses and "labels" in sent[-1]:
            return httpx.Response(422, json={"detail": "extra inputs are not permitted"})
        return httpx.Response(200, json={"claim": None})

    able = Abilities(frozenset({"probe"}), 0.0, None, {"gpu": "h100"}, "p")
    with httpx.Client(base_url="http://control", transport=httpx.MockTransport(answer)) as client:
        queue = HttpQueue(ControlPlane(client, SystemClock()))
        assert queue.claim(Seeker("p/1", "experiment", able), token="t") is None
    assert [each.get("labels") for each in sent] == [{"gpu": "h100"}, None][: 1 + refuses]
