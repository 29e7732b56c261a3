"""The command line tells what a kind takes, and checks a specification before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from events.answers.kinds.kind import KindAnswer
from events.kinds import KINDS, RUN_KINDS, read_spec
from events.kinds.declaring.fields import fields_of, flat, schema_of
from events.kinds.kind import described
from events.runtime.errors import Rejected
from podfleet.commands.catalogue import kind_help
from podfleet.main import app
from tests.unit.events.all_fields import ALL


class ControlPlane:
    """Knows one kind, and what it was asked."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def kind(self, name: str) -> KindAnswer:
        self.asked.append(name)
        return msgspec.convert({**self.answer, "livePods": 0}, KindAnswer)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    """A control plane that knows a kind which is not installed here."""
    found = ControlPlane(described(ALL))
    monkeypatch.setattr(kind_help, "client", lambda: found)
    return found


def help_text(*words: str) -> str:
    answer = CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_help_names_the_kinds_without_asking_anybody(elsewhere: ControlPlane) -> None:
    lines = help_text("submit", "--help").splitlines()
    listed = lines[lines.index(next(each for each in lines if each.startswith("Kinds;"))) + 1 :]
    assert {each.split()[0] for each in listed if each.startswith("  ") and each[2] != " "} == RUN_KINDS
    assert elsewhere.asked == []


@pytest.mark.parametrize("kind", sorted(RUN_KINDS))
@pytest.mark.parametrize("command", [("submit",), ("schedules", "add")])
def test_help_beside_a_kind_tells_each_of_its_fields(
    kind: str, command: tuple[str, ...], elsewhere: ControlPlane
) -> None:
    names = {each.name for each in flat(fields_of(schema_of(KINDS[kind].spec)))}
    for words in (("--kind", kind, "--help"), ("-h", f"--kind={kind}")):
        text = help_text(*command, *words)
        _, heading, fields_help = text.partition(f"Fields of {kind}, as -p FIELD=VALUE:\n")
        assert heading
        assert {line.split()[0] for line in fields_help.splitlines() if line[:3].strip()} == names
    assert elsewhere.asked == []


def test_a_kind_that_is_not_installed_here_is_told_by_the_control_plane(elsewhere: ControlPlane) -> None:
    fields_help = help_text("submit", "--kind", "all_fields", "--help").partition("Fields of all_fields")[2]
    words = " ".join(fields_help.split())
    assert "count integer, at least 1, at most 10. How many <b>times</b> it is tried. [required]" in words
    assert "limits.mode one of fast, slow. [default: slow]" in words
    assert (
        fields_help.index("  choice ") < fields_help.index("  number ") < fields_help.index("  time_limit_s ")
    )
    shown = help_text("kinds", "show", "all_fields")
    assert "number\tnumber, above 0, below 100\t1.5\tfalse\t\n" in shown
    assert elsewhere.asked == ["all_fields"] * 2


def test_what_a_control_plane_tells_steers_no_terminal(elsewhere: ControlPlane) -> None:
    fields = {"\x1b[31mred": {"type": "string", "description": "\x1b]0;title\x07says", "default": "\x9b1m"}}
    elsewhere.answer = {**described(ALL), "specSchema": {"properties": fields}, "says": "\x1b[2J"}
    for words in (("submit", "--kind", "x", "--help"), ("kinds", "show", "x")):
        assert not set("\x1b\x07\x9b") & set(help_text(*words))
    elsewhere.answer = {**described(ALL), "specSchema": {}}
    assert "Fields of x" in help_text("submit", "--kind", "x", "--help")


@pytest.mark.parametrize(
    ("kind", "spec"), [("probe", {"seconds": "x"}), ("probe", {"secondz": 1}), ("experiment", {"idea": " "})]
)
def test_what_could_never_run_is_refused_here_in_the_words_of_the_server(
    kind: str, spec: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Rejected) as rejected:
        read_spec(kind, spec)
    with pytest.raises(typer.Exit) as ended:
        kind_help.check(kind, spec)
    assert (ended.value.exit_code, capsys.readouterr().err) == (2, f"{rejected.value.message}\n")


def test_what_can_run_and_what_is_not_known_here_is_sent() -> None:
    for kind in RUN_KINDS:
        kind_help.check(kind, KINDS[kind].example)
    kind_help.check("all_fields", {})
    for kind in KINDS.keys() - RUN_KINDS:
        kind_help.check(kind, {})


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([], None),
        (["--kind", "a"], "a"),
        (["--kind=a", "--kind", "b"], "a"),
        (["-p", "x=1", "--kind"], None),
        (["--kind="], ""),
    ],
)
def test_the_kind_that_arguments_name(words: list[str], kind: str | None) -> None:
    assert kind_help.named(words) == kind
