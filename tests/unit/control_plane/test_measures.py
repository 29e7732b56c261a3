"""What a stored run measures, whatever its kind and its specification are."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.reads.measures import measures_of


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        (
            "experiment",
            {"idea": "Dropout hurts on wine"},
            "With dropout, the accuracy on wine becomes lower.",
        ),
        ("experiment", {"idea": "Lookahead helps"}, None),
        ("experiment", {"idea": "Dropout helps", "colour": 1}, None),
        ("experiment", None, None),
        ("probe", {"seconds": 1}, None),
        ("of another package", {}, None),
    ],
)
def test_what_cannot_be_said_is_left_out(kind: str, spec: dict[str, Any] | None, said: str | None) -> None:
    found = measures_of(kind, spec)
    assert found is None if said is None else found is not None and found.startswith(said)
