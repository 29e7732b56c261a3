"""Proposals under way: each for its place, and no more of them than are kept."""

from __future__ import annotations

import asyncio

import pytest

from control_plane.runs.groups import proposals as module
from control_plane.runs.groups.proposals import Make, Proposals


def making(value: int, begun: asyncio.Event | None = None) -> Make:
    """Return what proposes a value; with `begun`, once that is set."""

    async def make() -> list[dict[str, int]]:
        if begun is not None:
            await begun.wait()
        return [{"x": value}]

    return make  # type: ignore[return-value]  # a value of a parameter is anything


async def test_a_proposal_for_an_earlier_place_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    proposals, begun = Proposals(), asyncio.Event()
    assert await proposals.of("g", "1/0", making(1, begun)) is None
    begun.set()
    await asyncio.wait([proposals.asked["g"][1]])
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    assert await proposals.of("g", "2/0", making(2)) == [{"x": 2}]
    assert not proposals.asked


async def test_one_that_is_made_for_an_earlier_place_serves_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    proposals, begun = Proposals(), asyncio.Event()
    assert await proposals.of("g", "1/0", making(1, begun)) is None
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    later = asyncio.create_task(proposals.of("g", "2/0", making(2)))
    await asyncio.sleep(0)
    begun.set()
    assert await later is None
    assert await proposals.of("g", "2/0", making(2)) == [{"x": 2}]


async def test_of_groups_that_never_ask_again_the_oldest_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    monkeypatch.setattr(module, "KEPT_MAX", 2)
    proposals, never = Proposals(), asyncio.Event()
    for number in range(3):
        assert await proposals.of(f"g{number}", "1/0", making(number, never)) is None
    assert [*proposals.asked] == ["g1", "g2"]
    kept = [task for _, task in proposals.asked.values()]
    await proposals.close()
    assert all(task.cancelled() for task in kept)
