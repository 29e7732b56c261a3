"""The columns of `podfleet ledger`."""

from __future__ import annotations

from control_plane.reads.ledger import segments
from podfleet.commands.maintenance import ledger


def test_each_class_of_the_ledger_has_a_column() -> None:
    assert ledger.CLASSES == segments.CLASSES
