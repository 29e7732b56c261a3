"""Whatever the code of a kind does, a run of it has its page and its answer, and what failed is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest

from control_plane.kinds.experiment.parts import PARTS
from control_plane.model import kind_packages
from control_plane.reads.kinds import errors as kind_errors
from control_plane.reads.kinds.parts import KindPart, parts_of_kinds
from control_plane.server.web import sections
from control_plane.server.web.sections import RunPage, Section
from control_plane.store.reads import Part, RunReads
from events.answers.kind_parts import in_json
from events.runtime.errors import ConfigError, Transient
from events.testing import RUN_ID
from podfleet.details import show_run
from tests.unit.control_plane.web.test_odd_runs import Store, lines, pages_of, reading_of

LOG: Final = lines(("ai.run.started", {}), ("ai.node.created", {"stage": "S", "node": "S/1", "plan": "p"}))
WORDS: Final = "section 'Search tree' of the kind 'experiment' could not be made"


def raises(error: BaseException) -> Any:
    raise error


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Wait briefly where code never ends, and only there: a busy machine is no fault of a kind."""
    given = getattr(request.node, "callspec", None)
    if given is not None and forever in given.params.get("changes", {}).values():
        monkeypatch.setattr(kind_errors, "PART_S", 0.05)
    monkeypatch.setattr(kind_errors, "_LOGGED", set())


def failed_once(caplog: pytest.LogCaptureFixture) -> bool:
    found = [each for each in caplog.records if each.getMessage() == "kind.section_failed"]
    return len(found) == 1 and found[0].levelno == logging.ERROR and found[0].exc_info is not None


async def forever(*_: object) -> Any:
    await asyncio.Event().wait()


async def none(*_: object) -> Any:
    return None


def reading(part: Part) -> Any:
    async def read(reads: RunReads, run_id: str) -> Part:
        return part

    return read


NOT_ROWS: Final[Sequence[Any]] = (None, [5], {"a": 1}, "text")
ODD_ROWS: Final[Sequence[Any]] = (
    [{"a": object()}],
    [{1: 2}],
    [{"a": {1j}}],
    [{"a": float("nan"), "b": 2**200}],
)


@pytest.mark.parametrize(
    "changes",
    [
        {"read": lambda *_: raises(ValueError("a secret"))},
        {"read": lambda *_: raises(SystemExit(3))},
        {"read": lambda *_: raises(asyncio.CancelledError())},
        {"read": lambda *_: raises(BaseExceptionGroup("several", [SystemExit(3)]))},
        {"read": lambda *_: 5},
        {"read": forever},
        {"read": none},
        {"read": reading(Part(5, False))},  # type: ignore[arg-type]
        {"rows": lambda _: raises(ValueError("a secret"))},
        {"rows": lambda _: raises(asyncio.CancelledError())},
        *({"rows": lambda _, rows=rows: rows} for rows in NOT_ROWS),
    ],
)
def test_a_part_that_fails_is_told_in_the_page_and_in_the_answer(
    changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    found = replace(reading_of(Store(LOG)), parts={"experiment": (replace(PARTS[0], **changes),)})
    for _ in range(2):
        told = asyncio.run(found.run(RUN_ID))
        assert WORDS in str(told.sections[0].problem)
        assert (told.rows["nodes"], told.truncated) == ([], ["nodes"])
        assert "a secret" not in str(msgspec.json.encode(in_json(told)))
    assert failed_once(caplog)


@pytest.mark.parametrize("rows", ODD_ROWS)
def test_odd_values_in_rows_are_an_answer(rows: Any) -> None:
    part = replace(PARTS[0], rows=lambda _: rows)
    found = replace(reading_of(Store(LOG)), parts={"experiment": (part,)})
    assert msgspec.json.encode(in_json(asyncio.run(found.run(RUN_ID))))


def page_of(monkeypatch: pytest.MonkeyPatch, *own: Section, parts: Any = None) -> str:
    monkeypatch.setattr(sections, "of_kinds", lambda: {"experiment": own})
    if parts is not None:
        monkeypatch.setattr("tests.unit.control_plane.web.test_odd_runs.reading_of",
                            lambda store: replace(reading_of(store), parts=parts))  # fmt: skip
    return pages_of(Store(LOG))[0]


def test_a_part_that_fails_has_words_in_the_place_of_its_section(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    part: KindPart = replace(PARTS[0], rows=lambda _: raises(ValueError("a secret")))
    for own in ((), sections.of_kinds()["experiment"]):
        page = page_of(monkeypatch, *own, parts={"experiment": (part,)})
        assert "<h2>Search tree</h2>" in page
        assert "could not be made" in page
        assert "a secret" not in page
        assert "<h2>Specification</h2>" in page
    assert failed_once(caplog)


class Late:
    """A value that raises when a template shows it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __iter__(self) -> Any:
        raise self.error

    def __getattr__(self, name: str) -> Any:
        raise self.error


def later(error: BaseException) -> Any:
    async def load(page: RunPage) -> Mapping[str, Any]:
        return dict.fromkeys(("picture", "tree", "figures"), Late(error))

    return load


async def view(page: RunPage) -> Mapping[str, Any] | None:
    return {}


@pytest.mark.parametrize(
    "changes",
    [
        {"load": lambda _: raises(ValueError("a secret"))},
        {"load": lambda _: raises(SystemExit(3))},
        {"load": lambda _: raises(asyncio.CancelledError())},
        {"load": lambda _: {}},
        {"load": forever},
        {"load": reading(Part((), False))},
        {"template": "experiment/there_is_none.html", "load": view},
        {"load": view},  # its template needs more than that
        {"load": later(SystemExit(3))},
        {"load": later(asyncio.CancelledError())},
    ],
)
def test_a_section_that_fails_has_words_in_its_place(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = replace(sections.of_kinds()["experiment"][0], **changes)
    for _ in range(2):
        page = page_of(monkeypatch, own)
        assert "<h2>Search tree</h2>" in page
        assert "could not be made" in page
        assert "a secret" not in page
        assert "<h2>Specification</h2>" in page
    assert failed_once(caplog)


def test_an_outage_of_the_store_is_no_fault_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    outage = Transient("store", "away")
    part = replace(PARTS[0], read=lambda *_: raises(outage))
    with pytest.raises(Transient):
        asyncio.run(replace(reading_of(Store(LOG)), parts={"experiment": (part,)}).run(RUN_ID))
    with pytest.raises(Transient):
        page_of(monkeypatch, replace(sections.of_kinds()["experiment"][0], load=lambda _: raises(outage)))


def test_a_request_that_is_canceled_ends_in_the_middle_of_a_section() -> None:
    async def cancel() -> None:
        task = asyncio.create_task(kind_errors.made("hello", "a part", forever, str))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())


@pytest.mark.parametrize("part", [5, replace(PARTS[0], columns=None), replace(PARTS[0], rank="1")])
def test_what_is_no_part_stops_the_program(part: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_plane.kinds.experiment.parts.PARTS", (part,))
    with pytest.raises(ConfigError, match=r"kind 'experiment': .* is no part of a run"):
        parts_of_kinds()


def test_what_is_no_section_stops_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_plane.kinds.experiment.sections.SECTIONS", (None,))
    with pytest.raises(ConfigError, match=r"kind 'experiment': None is no section of a page"):
        sections.of_kinds.__wrapped__()


@pytest.mark.parametrize("table", [None, 5, {"a": 1}])
def test_what_is_no_table_of_a_kind_stops_the_program(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_plane.kinds.experiment.parts.PARTS", table)
    with pytest.raises(ConfigError, match=r"kind 'experiment': its `parts.PARTS` is no list"):
        parts_of_kinds()
    monkeypatch.setattr("control_plane.kinds.experiment.sections.SECTIONS", table)
    with pytest.raises(ConfigError, match=r"kind 'experiment': its `sections.SECTIONS` is no list"):
        sections.of_kinds.__wrapped__()


def test_a_package_that_ends_the_program_while_it_is_imported_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kind_packages, "import_module", lambda _: raises(SystemExit(0)))
    with pytest.raises(ConfigError, match=r"kind 'experiment': .*parts cannot be imported: SystemExit: 0"):
        parts_of_kinds()


def test_the_command_line_says_what_could_not_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    part = replace(PARTS[0], rows=lambda _: raises(ValueError("a secret")))
    found = replace(reading_of(Store(LOG)), parts={"experiment": (part,)})
    show_run(asyncio.run(found.run(RUN_ID)))
    assert WORDS in " ".join(capsys.readouterr().out.split())
