"""The columns of a list, as its address names them."""

from __future__ import annotations

import pytest

from control_plane.server.web.forms.columns import COLUMNS, USUAL, chosen
from events.runtime.errors import Rejected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([], list(USUAL)),
        ([""], list(USUAL)),
        (["queued,kind"], ["kind", "queued"]),
        (["queued", "kind", "kind"], ["kind", "queued"]),
        ([",".join(COLUMNS)], list(COLUMNS)),
    ],
)
def test_columns_stand_in_their_own_order_each_once(said: list[str], expected: list[str]) -> None:
    assert list(chosen(said)) == expected


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Rejected, match="unknown column 'colour'; known: kind, labels"):
        chosen(["kind,colour"])
