"""What people say about a run becomes JSON, or is refused with its place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from events.runtime.clock import SystemClock
from podfleet import parameters
from podfleet.parameters import Unreadable, put, read_file, requirements, value_of

CLOCK: Final = SystemClock()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("5", 5), ("1e-3", 0.001), ("true", True), ("null", None), ("[1, 2]", [1, 2]), ('"5"', "5"),
        ("plain words", "plain words"), ("", ""), ("NaN", "NaN"), ("a=b", "a=b"), ("01", "01"),
    ],
)  # fmt: skip
def test_a_value_is_json_or_text(said: str, expected: object) -> None:
    assert value_of(said) == expected


@pytest.mark.parametrize(
    ("said", "ago"),
    [
        ("90s", {"seconds": 90}),
        ("30m", {"minutes": 30}),
        ("2h", {"hours": 2}),
        ("1d", {"days": 1}),
        ("2w", {"weeks": 2}),
    ],
)
def test_so_long_ago_is_a_moment(said: str, ago: dict[str, int]) -> None:
    before = CLOCK.now() - timedelta(**ago)
    found = parameters.since(said)
    assert found is not None
    assert before <= found <= CLOCK.now() - timedelta(**ago)


def test_a_time_is_a_moment_and_other_words_are_refused() -> None:
    assert parameters.since("2026-12-24T18:00+01:00") == datetime(2026, 12, 24, 17, tzinfo=UTC)
    assert parameters.since(None) is None
    for said in ("yesterday", "2 h", "h", "-2h", "999999w", "2h\n"):
        with pytest.raises(typer.BadParameter):
            parameters.since(said)


def test_what_is_asked_of_a_pod_is_text_where_it_is_a_label_or_a_name() -> None:
    pairs = ["gpu_gib=24", "labels.gpus=>=4", "labels.rack=7", "pod=12", "region=eu", "labels.gpus=2"]
    assert requirements(pairs) == {
        "gpu_gib": 24, "labels": {"gpus": "2", "rack": "7"}, "pod": "12", "region": "eu",
    }  # fmt: skip
    assert requirements(None) == {}
    for pair in ("gpu_gib", "=3"):
        with pytest.raises(typer.BadParameter, match=r"is not key=value, such as labels\.gpu=h100"):
            requirements([pair])


def test_dots_lead_into_mappings_and_the_last_word_wins() -> None:
    fields: dict[str, Any] = {"nodes": {"Stage_1": 1}}
    for pair in ("nodes.Stage_2=3", "nodes.Stage_1=2", "idea=a=b", "seed=7"):
        put(fields, pair)
    assert fields == {"nodes": {"Stage_1": 2, "Stage_2": 3}, "idea": "a=b", "seed": 7}


@pytest.mark.parametrize("pair", ["seconds", "=5", "a..b=1", "seed.deeper=1"])
def test_what_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(Unreadable, match="-p "):
        put({"seed": 7}, pair)


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    yaml, json = tmp_path / "spec.yaml", tmp_path / "spec.JSON"
    yaml.write_text(
        "rate: 1e-3\nlabel: '1e-3'\nnodes: {Stage_1: 2}\nidea: |\n  Dropout\n  helps\nno_limit: null\n"
    )
    json.write_text(
        '\ufeff{"rate": 1e-3, "label": "1e-3", "nodes": {"Stage_1": 2},'
        ' "idea": "Dropout\\nhelps\\n", "no_limit": null}'
    )
    assert read_file(yaml) == read_file(json)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "idea: [1,\n", r"a\.yaml: line 2, column 1: .*YAML"),
        ("a.yaml", "a: b: c", r"line 1, column 5: mapping values"),
        ("a.yaml", "a: !!python/object/apply:os.system [ls]", r"line 1"),
        ("a.yaml", "when: 2026-11-22", r"when is a date; put it in quotes"),
        ("a.yaml", "on: 1", r"True is no name of a field; put it in quotes"),
        ("a.yaml", "a: {b: .nan}", r"a\.b is nan"),
        ("a.yaml", "a: &x [*x]", r"deeper than 64"),
        ("a.yaml", "", r"it holds nothing; a spec is a mapping"),
        ("a.yaml", "- 1", r"it holds list"),
        ("a.json", '{"a": 1,}', r"a\.json: line 1, column \d+: .*JSON"),
        ("a.json", '{"a": NaN}', r"NaN is no number"),
        ("a.json", "[" * 100_000, r"a\.json: "),
        ("a.txt", "a: 1", r"\.yaml, \.yml, \.json"),
    ],
)
def test_a_bad_file_is_refused_with_the_place_and_what_would_do(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Unreadable, match=says):
        read_file(tmp_path / name)


def test_what_is_no_file_of_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="there is no such file"):
        read_file(tmp_path / "none.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(Unreadable, match="directory"):
        read_file(tmp_path / "folder.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Unreadable, match="UTF-8"):
        read_file(tmp_path / "bytes.yaml")


NO_OPTIONS: Final[dict[str, Any]] = dict.fromkeys(
    ("priority", "label", "requires", "attempts", "queue_limit", "not_before"), None
)


def test_an_option_that_is_not_given_is_none_of_a_submission_and_no_change() -> None:
    assert {*parameters.start_options(**NO_OPTIONS, secret=None).values()} == {None}
    assert parameters.start_options(**NO_OPTIONS, secret=[])["secrets"] is None
    assert parameters.changes(**NO_OPTIONS, remove_label=None) == {}


def test_the_options_of_a_change_are_those_of_a_submission_and_what_lifts_them() -> None:
    given: Any = {
        "priority": 0, "label": ["a=b"], "requires": ["gpu_gib=24", "region=eu"], "attempts": 2,
        "queue_limit": 60, "not_before": "2026-12-24T18:00+01:00",
    }  # fmt: skip
    start = datetime(2026, 12, 24, 17, tzinfo=UTC)
    expected = {
        "priority": 0, "labels": {"a": "b"}, "requires": {"gpu_gib": 24, "region": "eu"}, "max_attempts": 2,
        "queue_limit_s": 60, "not_before": start,
    }  # fmt: skip
    assert parameters.start_options(**given, secret=["A"]) == {**expected, "secrets": ["A"], "project": None}
    assert parameters.changes(**given, remove_label=["c", "a"]) == {
        **expected,
        "labels": {"a": "b", "c": None},
    }
    lifted: Any = {**NO_OPTIONS, "requires": ["nothing"], "not_before": "now"}
    assert parameters.changes(**lifted, remove_label=None) == {"requires": {}, "not_before": None}


def test_a_project_is_that_of_the_option_the_environment_or_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parameters.usual_project(None) is None
    (tmp_path / ".env").write_text("PODFLEET_PROJECT=vision\n")
    assert (parameters.usual_project(None), parameters.usual_project("zoe")) == ("vision", "zoe")
    assert parameters.start_options(**NO_OPTIONS, secret=None)["project"] == "vision"
    (tmp_path / ".env").write_bytes(b"\xff\xfe=1\n")
    with pytest.raises(typer.BadParameter, match="cannot be read"):
        parameters.usual_project(None)


@pytest.mark.parametrize("text", ["soon", "", "2026-13-01", "0001-01-01T00:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no time"):
        parameters.moment(text)
