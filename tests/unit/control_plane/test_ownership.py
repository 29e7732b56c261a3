"""The table of writers in code and the one in words name the same fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.model.ownership import OWNERS, strangers
from control_plane.runs.submission import Submission, check, run_fields

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("collection", OWNERS)
def test_every_field_is_explained(collection: str) -> None:
    text = "".join((DOCS / page).read_text() for page in ("data.md", "kinds.md"))
    assert [name for name in OWNERS[collection] if f"`{name}`" not in text] == []


def test_a_field_without_a_writer_is_a_stranger() -> None:
    assert strangers("runs", {"_id": "r", "status": "QUEUED", "color": "blue"}) == ["color"]


def test_every_field_that_a_submission_stores_has_a_writer() -> None:
    wanted = Submission(
        kind="probe",
        spec={},
        by="me",
        group_id="g",
        slot=1,
        idempotency_key="k",
        secrets=("A",),
        labels={"a": "b"},
    )
    fields = run_fields(check(wanted))
    assert {"secrets", "groupId", "slot", "idempotency"} <= fields.keys()
    assert strangers("runs", fields) == []
