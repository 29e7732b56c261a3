"""What keeps pods from claiming, counted in bounds."""

from __future__ import annotations

from typing import Any

from control_plane.model.broken import SHOWN_MAX, Broken, count_failing, obstacle


def check(name: str, *, ok: bool = False, kinds: list[str] | None = None) -> dict[str, Any]:
    return {"name": name, "ok": ok, "code": None, "message": "why", "kinds": kinds}


def test_a_check_that_fails_keeps_a_pod_from_the_kinds_that_need_it() -> None:
    broken = Broken.of([check("disk", ok=True), check("model:a", kinds=["experiment"])])
    assert [each.name for each in broken] == ["model:a"]
    assert obstacle("experiment", broken) == broken[0]
    assert obstacle("probe", broken) is None
    assert obstacle("probe", Broken.of([check("disk")])) is not None


def test_pods_are_counted_by_check_and_rare_ones_together() -> None:
    pods = [[check("disk"), check("storage", ok=True)], [check("disk")]]
    assert count_failing(pods) == {"disk": 2}
    names = [[check(f"model:{number}")] for number in range(SHOWN_MAX + 5)]
    counted = count_failing([*pods, *names])
    assert (len(counted), counted["disk"], sum(counted.values())) == (SHOWN_MAX + 1, 2, SHOWN_MAX + 7)
