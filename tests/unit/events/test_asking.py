"""Whatever the functions of a kind do, a run of it is submitted, refused or shown in words."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

import pytest

import events.kinds
from control_plane.reads.measures import measures_of
from events import formatting
from events.answers.logs import LoggedEvent
from events.kinds import KINDS, measures, normal_of, problem_with, read_spec, title_of
from events.kinds.packages.guarded_call import asked
from events.runtime.errors import NotMeasurable, Rejected

ERRORS: Final = (ValueError("a secret"), SystemExit(3), asyncio.CancelledError())


def raising(error: BaseException) -> Any:
    def fail(*_: object) -> Any:
        raise error

    return fail


def probe_with(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setattr(events.kinds, "KINDS", {**KINDS, "probe": replace(KINDS["probe"], **fields)})


@pytest.mark.parametrize("error", ERRORS)
def test_a_title_that_cannot_be_made_is_the_kinds_name(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    probe_with(monkeypatch, title=raising(error))
    assert title_of("probe", read_spec("probe", {})) == "probe"


@pytest.mark.parametrize(("title", "shown"), [(5, "probe"), (None, "probe"), ("x" * 300, "x" * 200)])
def test_a_title_is_a_short_text(monkeypatch: pytest.MonkeyPatch, title: Any, shown: str) -> None:
    probe_with(monkeypatch, title=lambda _: title)
    assert title_of("probe", read_spec("probe", {})) == shown


@pytest.mark.parametrize("error", ERRORS)
def test_a_check_that_fails_refuses_in_words(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    probe_with(monkeypatch, check=raising(error))
    with pytest.raises(Rejected, match=rf"the check of the kind 'probe' failed \({type(error).__name__}\)"):
        read_spec("probe", {})


@pytest.mark.parametrize("error", ERRORS)
def test_a_specification_that_cannot_be_made_normal_is_refused_in_words(error: BaseException) -> None:
    kind = replace(KINDS["probe"], normal=raising(error))
    with pytest.raises(Rejected, match=rf"could not make it normal \({type(error).__name__}\); fix"):
        normal_of(kind, read_spec("probe", {}))


def test_what_is_made_normal_is_still_a_specification_of_its_kind() -> None:
    kind = replace(KINDS["probe"], normal=lambda _: {"seconds": "long"})
    with pytest.raises(Rejected, match=r"could not make it normal \(ValidationError\)"):
        normal_of(kind, read_spec("probe", {}))


@pytest.mark.parametrize("error", ERRORS)
def test_a_measure_that_cannot_be_said_refuses_in_words_and_takes_no_page_away(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    probe_with(monkeypatch, measures=raising(error))
    with pytest.raises(Rejected, match=rf"say what is measured \({type(error).__name__}\); fix"):
        measures("probe", read_spec("probe", {}))
    assert measures_of("probe", {}) is None


def test_what_is_measured_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    probe_with(monkeypatch, measures=lambda _: "this\n  and that")
    assert measures("probe", read_spec("probe", {})) == "this and that"


def test_what_cannot_be_measured_stays_its_own_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = NotMeasurable("not so", words=["flarb"])
    probe_with(monkeypatch, measures=raising(refusal))
    with pytest.raises(NotMeasurable) as caught:
        measures("probe", read_spec("probe", {}))
    assert caught.value is refusal


def test_what_a_check_finds_is_a_text() -> None:
    found: Any = {"not": "a text"}
    kind = replace(KINDS["probe"], check=lambda _: found)
    assert problem_with(kind, read_spec("probe", {})) == "{'not': 'a text'}"


@pytest.mark.parametrize("error", ERRORS)
def test_a_line_that_cannot_be_made_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(formatting, "_LINES", {"ai.hello.greeted": raising(error)})
    said = formatting.says(logged("ai.hello.greeted"))
    assert (type(error).__name__ in said, "a secret" in said) == (True, False)


def test_a_line_is_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatting, "_LINES", {"ai.hello.greeted": lambda _: 5})
    assert formatting.says(logged("ai.hello.greeted")) == "5"


def test_a_person_who_ends_the_program_is_heard() -> None:
    with pytest.raises(KeyboardInterrupt):
        asked(raising(KeyboardInterrupt()), str)


def logged(name: str) -> LoggedEvent:
    event: dict[str, Any] = dict.fromkeys(LoggedEvent.__struct_fields__)
    return LoggedEvent(**{**event, "type": name, "data": {}})
