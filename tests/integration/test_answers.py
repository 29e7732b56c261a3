"""Answers whose size a pod would decide: each stays small, and says what it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from events.catalog import (
    ArtifactRegistered,
    RunFailed,
    RunLog,
    RunStarted,
    RunUsage,
    StageMetric,
    StageProgress,
    StageStarted,
    ValidationAutoCompleted,
)
from events.delivery.control_plane_client import bearer
from events.envelope import Head, encode
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCodeGenerated, NodeCompleted, NodeCreated, NodeSelectedBest
from events.queue.settlement import End
from tests.integration.conftest import NDJSON, Fleet

pytestmark = pytest.mark.common_fleet

MIB = 1 << 20
LONG = "&" * 100_000  # five times as long in HTML
ANSWER_BYTES_MAX = 8 * MIB
NODES = 34
MANY = 600  # of what is short
BATCH = 8  # of long events, which is what goes into one request


def deep(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def hostile_facts(run_id: str) -> list[Fact]:
    """Return what a pod may say, each as long as it may be."""
    facts: list[Fact] = [RunStarted(pod=LONG), StageStarted(stage="Stage_1")]
    for number in range(NODES):
        node = f"Stage_1/{number}"
        facts += [
            NodeCreated(stage="Stage_1", node=node, plan=LONG, params={"a": deep([0] * 5_000, 40)}),
            NodeCodeGenerated(stage="Stage_1", node=node, code=LONG),
        ]
    facts += [
        NodeCompleted(
            stage="Stage_1",
            node="Stage_1/1",
            buggy=True,
            seconds=1.0,
            error=LONG,
            log_tail=LONG,
        ),
        NodeSelectedBest(stage="Stage_1", node="Stage_1/1", reason=LONG, seeds=list(range(9_000))),
        StageProgress(stage="Stage_1", progress=0.5, activity=LONG),
        *(RunUsage(model=f"{number} {LONG[:1_000]}", prompt_tokens=1) for number in range(60)),
        *(StageStarted(stage=f"{number} {LONG[:150]}") for number in range(MANY)),
        *(
            StageProgress(stage=f"{number} {LONG[:150]}", progress=0.5, activity=LONG[:2_000])
            for number in range(MANY)
        ),
        *(RunLog(message=LONG) for _ in range(15)),
        ArtifactRegistered(
            name="a.png",
            key=f"runs/{run_id}/a1/a.png",
            size=1,
            sha256="0" * 64,
            content_type="image/png",
            stage=LONG[:50_000],
        ),
        StageMetric(stage="Stage_1", name="loss", value=1.0),
        ValidationAutoCompleted(verdict="pass", summary=LONG[:50_000], scores={"a": deep(LONG[:90_000], 40)}),
    ]
    return facts


@pytest.fixture
def run_id(fleet: Fleet, by_hand: Callable[[str, str], Any]) -> str:
    """A run of which a pod has said as much as it can at once."""
    fleet.submit("experiment", spec={"idea": "Dropout improves accuracy on iris"})
    hand = by_hand("runs", "experiment/cpu/any")
    facts = hostile_facts(hand.claim.run_id)
    for first in range(0, len(facts), BATCH):
        hand.say(*facts[first : first + BATCH])
    hand.say(RunFailed(code="bad", message=LONG, traceback=LONG))
    hand.settle(End("failed", code="bad", message="x"))
    return str(hand.claim.run_id)


TABS = ("", "/metrics", "/kind/tree", "/kind/paper", "/validation", "/log", "/files", "/attempts", "/spec")


def tabs_of(run_id: str) -> list[str]:
    return [f"/runs/{run_id}{each}" for each in TABS]


def test_every_answer_with_what_a_pod_said_is_bounded_and_pages_leave_nothing_out(
    fleet: Fleet, run_id: str
) -> None:
    sizes: dict[str, int] = {}
    for path in (
        "/", "/runs", *tabs_of(run_id), "/reviews", "/numbers",
        "/pods", "/hypotheses",
        f"/runs/compare?ids={run_id}&ids={run_id}x", "/metrics", "/api/overview", "/api/runs",
        f"/api/runs/{run_id}", f"/api/runs/{run_id}/events?limit=200", f"/api/runs/{run_id}/nodes",
        f"/api/runs/{run_id}/artifacts", f"/api/runs/{run_id}/explain", "/api/pods", "/api/queue",
    ):  # fmt: skip
        answer = fleet.client.get(path, timeout=30)
        assert answer.status_code in (200, 404), (path, fleet.log.read_text()[-3000:])
        sizes[path] = len(answer.content)
    assert {path: size for path, size in sizes.items() if size > ANSWER_BYTES_MAX} == {}
    whole = fleet.client.get(f"/api/runs/{run_id}").json()
    assert whole["truncated"] == ["nodes", "stages"]
    assert 0 < len(whole["stages"]) < MANY
    assert 0 < len(whole["nodes"]) < NODES
    assert "more characters" in whole["nodes"][0]["plan"]
    assert len(whole["usage"]["models"]) == 50
    assert whole["usage"]["calls"] == 60
    assert "there are more" in fleet.client.get(f"/runs/{run_id}/kind/tree").text
    assert "This run has more stages than are shown here" in fleet.client.get(f"/runs/{run_id}/attempts").text

    for path in ("events", "nodes"):
        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            query = {"after": after} if after else {}
            answer = fleet.client.get(f"/api/runs/{run_id}/{path}", params=query)
            assert len(answer.content) < ANSWER_BYTES_MAX
            page = answer.json()
            assert page["items"]
            seen += [each["id"] for each in page["items"]]
            after = page["next"]
            if path == "nodes":
                assert all(each["code"] == LONG for each in page["items"])
        assert len(seen) == len(set(seen))
        assert len(seen) >= NODES


ODD: list[tuple[str, dict[str, Any]]] = [
    ("ai.run.stage_completed", {"stage": "copy"}),
    ("ai.run.stage_progress", {"stage": "items", "progress": 1e-320}),
    ("ai.node.completed", {"stage": "items", "node": "keys", "buggy": False, "seconds": 1e308, "plan": 5,
                           "parent": {"a": []}}),
    ("ai.node.created", {"stage": "copy", "node": "get", "plan": "p", "params": {"a": [[]] * 15_000}}),
    ("ai.run.stage_metric", {"stage": "items", "name": "n", "value": 0.5, "step": 2**62}),
    ("ai.run.stage_metric", {"stage": "items", "name": "n", "value": 1e101, "step": 2**62 + 2048}),
    ("ai.run.stage_metric", {"stage": "items", "name": "m", "value": 5e-324}),
    ("ai.run.stage_metric", {"stage": "items", "name": "m", "value": 1e-323}),
    ("ai.run.usage", {"model": "items", "cost_usd": 1e308}),
    ("ai.run.usage", {"model": "keys", "cost_usd": 1e308, "gpu_s": -1e308}),
    ("ai.run.started", {"level": "x unseen", "message": {"items": 5}}),
]  # fmt: skip


def test_whatever_a_pod_says_every_page_is_one(fleet: Fleet, by_hand: Callable[[str, str], Any]) -> None:
    runs = [fleet.submit("experiment", spec={"idea": "Dropout improves accuracy", "seed": n}) for n in (1, 2)]
    for _ in runs:
        claim = by_hand("runs", "experiment/cpu/any").claim
        body = [
            encode(event_type, data, Head(
                id=f"{number}", source="//by/hand", attempt_id=claim.attempt_id, sequence=number,
                time="2026-11-21T10:00:00.000Z"))
            for number, (event_type, data) in enumerate(ODD, 1)
        ]  # fmt: skip
        answer = fleet.client.post(
            "/api/ingest/events", content=b"\n".join(body), headers={**NDJSON, **bearer(claim.run_token)}
        )
        assert (answer.status_code, answer.json()["rejected"]) == (202, [])
    run_id = runs[0]
    for path in (
        "/", "/runs", *tabs_of(run_id), f"/runs/compare?ids={','.join(runs)}",
        f"/runs/compare?ids={','.join(runs)}&log=on&seeds=each&smooth=0.9", "/reviews",
        "/numbers", "/metrics", "/api/queue", "/api/runs", f"/api/runs/{run_id}",
        f"/api/runs/{run_id}/events?limit=200",
        f"/api/runs/{run_id}/nodes", f"/api/runs/{run_id}/artifacts", f"/api/runs/{run_id}/explain",
    ):  # fmt: skip
        assert fleet.client.get(path, timeout=30).status_code == 200, (path, fleet.log.read_text()[-3000:])


def test_nobody_keeps_an_answer_or_guesses_what_it_is(fleet: Fleet) -> None:
    for path in (
        "/api/runs",
        "/api/none",
        "/api/runs?limit=x",
        "/healthz",
        "/runs",
        "/openapi.json",
        "/metrics",
    ):
        headers = fleet.client.get(path).headers
        assert headers["cache-control"] == "no-store", path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["cross-origin-opener-policy"] == "same-origin", path
    kept = fleet.client.get("/static/style.css").headers
    assert "no-store" not in kept.get("cache-control", "")
    assert kept["x-content-type-options"] == "nosniff"
