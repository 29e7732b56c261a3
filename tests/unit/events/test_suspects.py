"""What other pods report of what pods share, within bounds."""

from __future__ import annotations

from typing import Any

from events.queue.suspects import SUSPECTS_MAX, suspects


def pod(name: str, *failing: str, passing: tuple[str, ...] = ()) -> dict[str, Any]:
    checks = [{"name": each, "ok": False} for each in failing] + [
        {"name": each, "ok": True} for each in passing
    ]
    return {"_id": name, "checks": checks}


def test_what_pods_share_is_suspected_as_others_report_it() -> None:
    pods = [pod("a/1", "storage", "disk"), pod("b/1", "model:x", "storage", passing=("model:y",))]
    assert suspects(pods, of="c/1") == ("storage", "model:x")
    assert suspects(pods, of="b/1") == ("storage",), "its own word is none"
    assert suspects([pod("a/1", "disk", "gpu", "memory", "clock")], of="c/1") == (), "these are a pod's own"


def test_one_pod_counts_once_and_no_more_names_are_handed_on_than_a_pod_has_checks() -> None:
    liar = pod("a/1", *(f"model:{number}" for number in range(100)), "storage", "storage", "storage")
    assert len(suspects([liar], of="c/1")) == SUSPECTS_MAX
    assert suspects([liar, pod("b/1", "model:99")], of="c/1")[0] == "model:99"
