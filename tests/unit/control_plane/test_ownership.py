"""The table of writers in code and the one in words name the same fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.model.ownership import OWNERS, strangers

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("collection", OWNERS)
def test_every_field_is_explained(collection: str) -> None:
    text = "".join((DOCS / page).read_text() for page in ("data.md", "kinds.md"))
    assert [name for name in OWNERS[collection] if f"`{name}`" not in text] == []


def test_a_field_without_a_writer_is_a_stranger() -> None:
    assert strangers("runs", {"_id": "r", "status": "QUEUED", "color": "blue"}) == ["color"]
