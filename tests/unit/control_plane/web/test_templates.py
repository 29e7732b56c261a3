"""What templates make of names and words that a pod chose."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.model.views.document_mapping import from_document
from control_plane.server.web.page_renderer import Pages, Templates
from events.answers.answer import Listing
from events.answers.logs import LoggedEvent
from events.answers.runs import RunRow

PAGES = Pages("")


@pytest.mark.parametrize("name", [each for each in dir(dict) if not each.startswith("__")])
def test_a_name_in_brackets_is_a_key_and_no_method(name: str) -> None:
    template = Templates().from_string("{{ x[name] is defined }} {{ x.get(name, 0) }}")
    assert template.render(x={}, name=name) == "False 0"
    assert template.render(x={name: 1}, name=name) == "True 1"


def test_a_field_of_an_answer_goes_by_its_name_in_json_and_is_undefined_where_that_lacks_it() -> None:
    run = from_document(RunRow, {"classKey": "probe/cpu/any", "finishedAt": None})
    text = "{{ x.classKey }} {{ x['classKey'] }} {{ x.finishedAt is none }} "
    text += "{{ x.class_key is defined }} {{ x.paused is defined }} {{ x.get is defined }}"
    assert Templates().from_string(text).render(x=run) == (
        "probe/cpu/any probe/cpu/any True False False False"
    )
    listing = Listing(items=[run], next=None)
    text = "{{ x['items']|length }} {{ x.items|map(attribute='classKey')|first }}"
    assert Templates().from_string(text).render(x=listing) == "1 probe/cpu/any"


def row(event_type: str, **data: Any) -> str:
    event = {
        "runId": "r", "position": "p", "type": event_type, "data": data, "time": None, "sequence": 1,
        "attempt": 1, "receivedAt": "2026-11-24T00:00:00Z", "revision": None,
    }  # fmt: skip
    return PAGES.piece("event_row", from_document(LoggedEvent, event))


@pytest.mark.parametrize("said", ["x unseen", "unseen", "", 5, None, ["error"], {"error": 1}])
@pytest.mark.parametrize("event_type", ["ai.run.log", "ai.run.started", "ai.other"])
def test_only_a_known_level_becomes_a_class(event_type: str, said: object) -> None:
    assert 'class="l-"' in row(event_type, message="m", level=said)


def test_a_log_line_has_the_class_of_its_level() -> None:
    assert 'class="l-error"' in row("ai.run.log", message="m", level="error")
    assert 'class="l-warn"' in row("ai.run.log", message="m", level="warning")
    assert 'class="l-info"' in row("ai.run.log", message="m")
    assert 'class="l-"' in row("ai.run.started", level="error"), "other events have no level"
