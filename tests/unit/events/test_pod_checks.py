"""What the checks of pods tell of them and to others, within bounds."""

from __future__ import annotations

from typing import Any

from events.queue.pod_checks import SHOWN_MAX, SUSPECTS_MAX, Broken, count_failing, obstacle, suspects


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


def check(name: str, *, ok: bool = False, kinds: list[str] | None = None) -> dict[str, Any]:
    return {"name": name, "ok": ok, "code": None, "message": "why", "kinds": kinds}


def test_a_check_that_fails_keeps_a_pod_from_the_kinds_that_need_it() -> None:
    broken = Broken.of([check("disk", ok=True), check("model:a", kinds=["experiment"])])
    assert [each.name for each in broken] == ["model:a"]
    assert obstacle("experiment/cpu/any", broken) == broken[0]
    assert obstacle("probe/cpu/any", broken) is None
    assert obstacle("probe/cpu/any", Broken.of([check("disk")])) is not None
    gpu = Broken.of([check("gpu", kinds=["experiment"])])
    assert [obstacle(f"probe/{tier}/any", gpu) is None for tier in ("cpu", "24")] == [True, False]
    labels = ("rack=a4", "gpu=h100", "gpus=>=2,rack=a4", "driver=>=550")
    assert [obstacle(f"~p/probe/cpu/any/{each}", gpu) is None for each in labels] == [
        True,
        False,
        False,
        False,
    ]


def test_pods_are_counted_by_check_and_rare_ones_together() -> None:
    pods = [
        {"checks": [check("disk"), check("storage", ok=True)]},
        {"checks": [check("disk"), 5, {"name": 5}]},
    ]
    assert count_failing(pods) == {"disk": 2}
    names = [{"checks": [check(f"model:{number}")]} for number in range(SHOWN_MAX + 5)]
    counted = count_failing([*pods, *names])
    assert (len(counted), counted["disk"], sum(counted.values())) == (SHOWN_MAX + 1, 2, SHOWN_MAX + 7)
