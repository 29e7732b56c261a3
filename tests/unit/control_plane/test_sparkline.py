"""A sparkline is true to time, shows its gaps, and draws whatever a pod has said of itself."""

from __future__ import annotations

import re

from control_plane.server.web.drawing.sparkline import HEIGHT, KEPT, WIDTH, sparkline


def steps(points: list[tuple[float, float]], high: float = 1.0) -> list[tuple[str, float, float]]:
    drawn = re.search(r' d="([^"]*)"', sparkline(points, high=high, gap_s=3.5, span_s=120.0))
    found = re.findall(r"([ML])([\d.]+) ([\d.]+)", drawn[1] if drawn else "")
    return [(how, float(x), float(y)) for how, x, y in found]


def test_the_last_value_is_at_the_right_and_the_one_a_minute_before_in_the_middle() -> None:
    assert steps([(1000.0, 0.0), (1060.0, 0.5), (1061.0, 2.0), (1120.0, -1.0)]) == [
        ("M", 0.0, HEIGHT), ("M", WIDTH / 2, HEIGHT / 2), ("L", WIDTH / 2 + 2, 0.0), ("M", WIDTH, HEIGHT)
    ]  # fmt: skip
    assert len(steps([(float(second), 0.5) for second in range(500)])) == KEPT
    assert steps([(0.0, 1.0), (500.0, 1.0)]) == [("M", WIDTH, 0.0)], "what is older is left out"
    assert steps([(0.0, 5.0)], high=0.0) == [("M", WIDTH, HEIGHT)]
    assert steps([]) == []
