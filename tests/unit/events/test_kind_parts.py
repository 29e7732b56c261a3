"""The parts of a run are fields of its JSON, whoever has its kind installed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from events.answers.kind_parts import gathered, in_json, spread
from events.answers.runs import Run
from events.testing import make_run
from podfleet.client.call import Malformed, decoded

ROWS = [{"to": "Ada", "text": "Hello"}]
SECTION = {"name": "greetings", "title": "Greetings", "columns": ["to", "text"]}


def told(**more: Any) -> dict[str, Any]:
    """Return the JSON of a run of a kind that nobody has installed here."""
    found: dict[str, Any] = in_json(make_run(greetings=ROWS, sections=[SECTION]))
    return {**found, **more}


def test_the_parts_of_an_unknown_kind_are_read_and_told_again_as_they_were() -> None:
    json = told()
    assert json["greetings"] == ROWS
    assert json["nodes"] == []
    assert "rows" not in json
    run = decoded(msgspec.json.encode(json), Run)
    assert run.rows == {"greetings": ROWS, "nodes": []}
    assert [each.name for each in run.sections] == ["greetings"]
    assert in_json([run]) == [json]
    assert msgspec.json.decode(msgspec.json.encode(spread(run))) == json


def test_a_decision_whose_fields_were_cut_is_read() -> None:
    entry = {"n": 1, "cause": "cancel", "by": "ada", "at": "2026-01-01T00:00:00.000Z", "from": None,
             "to": "CANCELED", "attempt": 1, "seq": 1, "set": "… 1 more"}  # fmt: skip
    run = decoded(msgspec.json.encode(told(journal=[entry])), Run)
    assert run.journal
    assert in_json(run)["journal"] == [entry]


def test_what_is_unknown_and_no_list_is_left_out() -> None:
    assert "later" not in in_json(gathered(told(later={"a": 1})))


def test_a_run_of_an_earlier_control_plane_has_no_parts() -> None:
    json = told()
    del json["sections"]
    assert gathered(json).sections == []


@pytest.mark.parametrize("content", [b"[]", b'{"id": 1}', b"{", b"null"])
def test_what_is_no_run_is_refused(content: bytes) -> None:
    with pytest.raises(Malformed):
        decoded(content, Run)


def test_a_field_of_another_type_is_refused_with_its_place() -> None:
    with pytest.raises(Malformed, match=r"\$\.attempt"):
        decoded(msgspec.json.encode(told(attempt="x")), Run)
