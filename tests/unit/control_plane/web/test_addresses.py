"""What a form's address is made into."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from control_plane.server.web.forms.addresses import shorter
from control_plane.server.web.forms.columns import USUAL

USUALLY = "&".join(f"columns={name}" for name in USUAL)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (f"status=&q=&{USUALLY}", "/runs"),
        (f"status=QUEUED&q=&{USUALLY}", "/runs?status=QUEUED"),
        ("label=a%3Db&q=&columns=kind&columns=labels", "/runs?label=a%3Db&columns=kind%2Clabels"),
        ("status=QUEUED&columns=kind,labels", None),
        ("", None),
    ],
)
def test_only_what_says_something_stays_in_an_address(typed: str, expected: str | None) -> None:
    found = shorter("/runs", parse_qsl(typed, keep_blank_values=True))
    assert found == expected
    if found is not None:
        assert shorter("/runs", parse_qsl(found.partition("?")[2], keep_blank_values=True)) is None
