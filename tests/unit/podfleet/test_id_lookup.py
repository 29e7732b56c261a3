"""Which run the beginning or the end of an id means."""

from __future__ import annotations

import pytest

from control_plane.model.views.document_mapping import from_document
from events.answers.kinds.hypotheses import HypothesisRow
from events.testing import make_run
from podfleet.id_lookup import HYPOTHESIS, RUN, Unknown, meant

KNOWN = [make_run(id=f"01ABC{letter}", title=f"\x1b[31mrun {letter}") for letter in "DEF"]


def test_a_beginning_that_one_id_has_means_it() -> None:
    assert meant(KNOWN, KNOWN, RUN, "01ABCE") == "01ABCE"
    assert meant(KNOWN[:1], (), RUN, "01") == "01ABCD"


def test_a_beginning_that_several_share_lists_them_without_their_colours() -> None:
    with pytest.raises(Unknown) as several:
        meant(KNOWN, KNOWN, RUN, "01AB")
    assert [line.strip() for line in str(several.value).splitlines()[1:]] == [
        "01ABCD  QUEUED run D",
        "01ABCE  QUEUED run E",
        "01ABCF  QUEUED run F",
    ]
    many = [from_document(HypothesisRow, {"_id": f"01{number:04}", "title": "x"}) for number in range(100)]
    with pytest.raises(Unknown) as several:
        meant(many, (), HYPOTHESIS, "01")
    assert len(str(several.value).splitlines()) == 12


def test_a_beginning_that_nobody_has_says_where_to_look() -> None:
    with pytest.raises(Unknown, match="`podfleet runs list`"):
        meant(KNOWN, KNOWN, RUN, "02")
    with pytest.raises(Unknown, match="`podfleet hypotheses list`"):
        meant([], [], HYPOTHESIS, "02")


def test_an_end_that_one_id_has_means_it_where_none_begins_so() -> None:
    assert meant(KNOWN, KNOWN, RUN, "bce") == "01ABCE"
    assert meant(KNOWN, [make_run(id="X01ABCE")], RUN, "01ABCE") == "01ABCE"
    with pytest.raises(Unknown, match="several"):
        meant([], [*KNOWN, make_run(id="02ABCE")], RUN, "BCE")


def test_a_name_that_nobody_has_is_told_as_it_was_typed() -> None:
    with pytest.raises(Unknown, match="no run 'noSuch'"):
        meant(KNOWN, KNOWN, RUN, "noSuch")
