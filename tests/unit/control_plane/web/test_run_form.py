"""The form of a new run: what is made of what was typed, for a kind with a field of every type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.server.web.forms.fields import Unfit
from control_plane.server.web.forms.run import RunForm
from control_plane.server.web.forms.typed import text_of, value_of
from control_plane.server.web.forms.validation_errors import complaints, placed
from control_plane.server.web.page_renderer import Pages
from events.kinds import KINDS
from events.kinds.declaring.fields import NOT_OF_PATTERN, Field, fields_of, flat, schema_of, shown
from events.kinds.experiment import LOOKS_MAX
from events.kinds.trial import METRICS, METRICS_MAX
from events.queue.requirements import Requirements
from tests.unit.events.all_fields import ALL

NEEDED = {"spec.text": "a text", "spec.who": "me", "spec.count": "5", "spec.choice": "a"}
FIELDS = {each.name: each for each in flat(fields_of(schema_of(ALL.spec)))}


def spec_of(**typed: str) -> dict[str, Any]:
    """Return the specification that is typed, without what every one here has."""
    found = dict(
        RunForm(ALL, {**NEEDED, **{f"spec.{name}": text for name, text in typed.items()}}).body().spec
    )
    return {name: each for name, each in found.items() if f"spec.{name}" not in NEEDED or name in typed}


def problems_of(typed: Mapping[str, str]) -> Mapping[str, str]:
    with pytest.raises(Unfit) as unfit:
        RunForm(ALL, typed).body()
    return unfit.value.fields


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", "  a\r\nb ", "a\nb"),
        ("who", "me", "me"),
        ("who", "5", "5"),
        ("who", '{"Full Name": "Ada"}', {"Full Name": "Ada"}),
        ("count", "7", 7),
        ("number", "2", 2),
        ("number", "+.5e1", 5.0),
        ("flag", "false", False),
        ("maybe_text", "null", "null"),
        ("maybe_number", "null", None),
        ("until_number", "null", None),
        ("until_text", "null", None),
        ("until_text", "5", "5"),
        ("until_choice", "null", None),
        ("level", "2", 2),
        ("steps", "5", 5),
        ("steps", "five", "five"),
        ("steps", "true", "true"),
        ("names", '["a", "b"]', ["a", "b"]),
        ("rates", '{"a": 1}', {"a": 1}),
        ("anything", "[1, {}]", [1, {}]),
        ("when", "2026-11-25T17:00:00Z", "2026-11-25T17:00:00Z"),
        ("deep", '{"limits": {"first": 2}}', {"limits": {"first": 2}}),
    ],
)
def test_a_field_means_what_was_typed(name: str, text: str, value: Any) -> None:
    found = spec_of(**{name: text})[name]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "takes", "value"),
    [
        ("true", "boolean", True),
        ("1.5", "number", 1.5),
        ("2", "number", 2),
        ("1.5", "integer", "1.5"),
        ("[1]", "array", [1]),
        ("[1]", "object", "[1]"),
        ("[1", "object", "[1"),
        ('"a"', "object", '"a"'),
    ],
)
def test_text_is_json_where_the_field_takes_its_type(text: str, takes: str, value: Any) -> None:
    field = Field(path=("x",), shape="either", type="any", takes=frozenset({takes}))
    found = value_of(field, text)
    assert (found, type(found)) == (value, type(value))


PAIRS: Final = Field(path=("x",), shape="json", type="object", has_pairs=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=1", {"A": "1"}),
        (" A = x=y \n\nB=\n", {"A": "x=y", "B": ""}),
        ('{"A": "1\\n2"}', {"A": "1\n2"}),
        ("{}", {}),
    ],
)
def test_an_object_of_texts_is_typed_in_lines_or_as_json(text: str, value: Any) -> None:
    assert value_of(PAIRS, text) == value


@given(st.dictionaries(st.text("a={ \n\x85é", max_size=3), st.text("a= \n\u2028", max_size=3), max_size=3))
def test_an_object_of_texts_is_shown_as_it_could_be_typed(value: dict[str, str]) -> None:
    assert value_of(PAIRS, text_of(PAIRS, value)) == value


def test_a_job_is_typed_in_a_few_fields() -> None:
    typed = {"spec.command": "python train.py", "spec.env": "A=1", "spec.inputs": "images=images/3"}
    form = RunForm(KINDS["job"], typed)
    assert form.body().spec == {
        "command": "python train.py", "env": {"A": "1"}, "inputs": {"images": "images/3"},
    }  # fmt: skip
    like = RunForm.like(KINDS["job"], form.body().model_dump())
    assert {name: like.typed[name] for name in typed} == typed
    with pytest.raises(Unfit) as unfit:
        RunForm(KINDS["job"], typed | {"spec.env": "A", "spec.inputs": "images=../x"}).body()
    assert "lines such as NAME=value; 'A' is none" in unfit.value.fields["spec.env"]


def test_what_is_empty_is_not_sent() -> None:
    empty = dict.fromkeys(FIELDS, " \r\n ") | {"limits.first": ""}
    assert spec_of(**{name: text for name, text in empty.items() if f"spec.{name}" not in NEEDED}) == {}
    body = RunForm(ALL, NEEDED).body()
    assert (body.priority, body.requires, body.labels, body.not_before) == (0, {}, {}, None)


def test_a_group_is_one_object_and_sent_where_something_of_it_is_told() -> None:
    assert spec_of(**{"limits.first": "2", "limits.is_hard": "true"}) == {
        "limits": {"first": 2, "is_hard": True}
    }
    assert spec_of(**{"pair.left": "0"}) == {"pair": {"left": 0}}
    assert problems_of({**NEEDED, "spec.pair.right": "1"}) == {"spec.pair.left": "say something here"}


def test_the_run_itself_is_told_beside_its_specification() -> None:
    typed = {
        "priority": "-5",
        "max_attempts": "1",
        "queue_limit_s": "60",
        "not_before": "2099-01-01T00:00",
        "labels": "team = vision\r\n\r\nrun=a=b",
        "requires.gpu_gib": "24",
        "requires.region": "eu",
        "after": " 01A \r\n\r\ngroup:rates",
    }
    body = RunForm(ALL, NEEDED | typed).body()
    assert (body.priority, body.max_attempts, body.queue_limit_s) == (-5, 1, 60)
    assert str(body.not_before) == "2099-01-01 00:00:00+00:00"
    assert body.labels == {"team": "vision", "run": "a=b"}
    assert body.after == ["01A", "group:rates"]
    again = RunForm.like(ALL, {"after": body.after}).typed["after"]
    assert again == "01A\ngroup:rates"
    assert problems_of({**NEEDED, "after": "\n".join(map(str, range(65)))}) == {"after": "at most 64 names"}
    assert [*problems_of({**NEEDED, "after": "x" * 101})] == ["after"]
    assert body.requires == {"gpu_gib": 24, "region": "eu"}


def test_everything_that_is_wrong_is_told_at_once_each_at_its_field() -> None:
    found = problems_of(
        {
            "spec.text": "x" * 60,
            "spec.who": '{"Full Name": 5}',
            "spec.choice": "c",
            "spec.number": "1e999",
            "spec.flag": "yes",
            "spec.until_number": "5.5",
            "spec.names": '["a", 5]',
            "spec.rates": "{",
            "spec.when": "tomorrow",
            "spec.limits.first": "0",
            "spec.limits.ratio": "half",
            "spec.deep": '{"limits": {"first": 0}}',
            "spec.time_limit_s": "-1",
            "priority": "101",
            "max_attempts": "many",
            "not_before": "2500-01-01T00:00Z",
            "labels": "team",
            "requires.region": "!",
            "requires.gpu_gib": "8000",
        }
    )
    assert found == {
        "spec.text": "Expected `str` of length <= 50",
        "spec.who": "Full Name: Expected `str`, got `int`",
        "spec.count": "say something here",
        "spec.choice": "one of a, b",
        "spec.number": "a number",
        "spec.flag": "one of true, false",
        "spec.until_number": "a whole number",
        "spec.names": "Expected `str`, got `int` - at `$.names[1]`",
        "spec.rates": "no JSON at line 1, column 2: Expecting property name enclosed in double quotes",
        "spec.when": "Invalid RFC3339 encoded datetime",
        "spec.limits.first": "Expected `int` >= 1",
        "spec.limits.ratio": "a number",
        "spec.deep": "limits.first: Expected `int` >= 1",
        "spec.time_limit_s": "Expected `float` > 0.0",
        "priority": "at most 100",
        "max_attempts": "a whole number",
        "not_before": "the year has to be from 2000 to 2199",
        "labels": "'team' is not name=value, such as team=vision",
        "requires.region": "Expected `str` matching regex '\\\\A[A-Za-z0-9._-]{1,64}\\\\Z'",
        "requires.gpu_gib": "Expected `float` <= 4096.0",
    }


def test_what_the_kind_itself_refuses_stands_at_the_field_that_it_names() -> None:
    words = "`limits.first` is over `count`"
    assert problems_of({**NEEDED, "spec.limits.first": "6"}) == {"spec.limits.first": words}
    plain = replace(ALL, check=lambda _: "not today")
    with pytest.raises(Unfit) as unfit:
        RunForm(plain, NEEDED).body()
    assert unfit.value.fields == {"": "not today"}
    assert unfit.value.problems == ["not today"]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"labels": "a b=c"}, "a b: text like ^[A-Za-z0-9]"),
        ({"labels": "\n".join(f"n{number}=x" for number in range(33))}, "at most 32"),
        ({"labels": "a b=c\n" * 33}, "at most 32 labels"),
        ({"spec.text": "a\x00b"}, "a character that cannot be stored"),
        ({"spec.maybe_text": "\ud800"}, "a character that cannot be stored"),
        ({"spec.until_number": "9" * 19}, "beyond 64 bits"),
        ({"spec.until_number": "9" * 5_000}, "a whole number"),
        ({"spec.anything": "9" * 5_000}, "no JSON that can be read"),
        ({"spec.anything": "[" * 100_000}, "no JSON"),
        ({"spec.anything": "[" * 65 + "]" * 65}, "deeper than 64 levels"),
        ({"spec.anything": "[NaN]"}, "NaN and infinity are no JSON"),
        ({"spec.anything": '"\\ud800"'}, "a character that cannot be stored"),
        ({"spec.who": "{"}, "text does not begin with {"),
        ({"spec.rates": '{"a": "b"}'}, "at `$.rates[...]`"),
        ({"priority": "1" * 5_000}, "a whole number"),
    ],
)
def test_what_is_hostile_is_told_in_words(typed: dict[str, str], words: str) -> None:
    found = problems_of(NEEDED | typed)
    assert words in found[next(iter(typed))]


LETTERS = st.text("ab é{", max_size=3)


def valid(field: Field) -> st.SearchStrategy[str]:
    """Return texts that a person can type into a field."""
    if field.choices:
        return st.sampled_from(field.texts)
    match field.path[-1], field.shape:
        case (("start_limit_s" | "time_limit_s" | "no_progress_s" | "program_limit_s"), _):
            return st.floats(1, 1e6).map(str)
        case "temperature", _:
            return st.floats(0.001, 2).map(repr)
        case (("noise_max" | "spread_max"), _):
            return st.floats(0.001, 1).map(repr)
        case "context", _:
            return st.integers(256, 1 << 20).map(str)
        case (("height" | "width"), _):
            return st.integers(4, 64).map(lambda eighth: str(8 * eighth))
        case (("endpoint" | "engine" | "tokenizer"), _):
            return st.from_regex(r"[a-z][a-z0-9]{0,20}", fullmatch=True)
        case (("token_secret" | "proxy_secret" | "certificates_secret") as name, _):
            begin = {"token_secret": "HF_TOKEN", "proxy_secret": "PROXY"}.get(name, "CERTIFICATES")
            return st.from_regex(rf"{begin}_[A-Za-z0-9_]{{1,20}}", fullmatch=True)
        case "grace_s", _:
            return st.integers(1, 25).map(str)
        case "again", _:
            return st.integers(0, 2).map(str)
        case "looks", _:
            return st.integers(1, LOOKS_MAX).map(str)
        case _, "integer":
            return st.integers(1, 10).map(str)
        case _, "number":
            return st.floats(0.001, 99).map(repr) | st.integers(1, 99).map(str)
        case "names", _:
            return st.lists(LETTERS, max_size=3).map(json.dumps)
        case (("concurrency" | "rates"), _) if field.takes == {"array"}:
            return st.lists(st.integers(1, 99), max_size=3).map(json.dumps)
        case "commit", _:
            return st.from_regex(r"[0-9a-f]{40}", fullmatch=True)
        case (("tree" | "diff"), _):
            return st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
        case (("env" | "inputs" | "params"), _):
            return st.just("{}")
        case "outputs", _:
            return st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), max_size=3).map(json.dumps)
        case "metrics", _:
            return st.lists(st.sampled_from(METRICS), max_size=METRICS_MAX).map(json.dumps)
        case "rates", _:
            return st.dictionaries(LETTERS, st.floats(-9, 9), max_size=3).map(json.dumps)
        case "when", _:
            return st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat())
        case (("anything" | "deep" | "earlier" | "own" | "parameters"), _):
            return st.just("{}" if field.path[-1] in ("deep", "parameters") else "[]")
        case _:
            return st.from_regex(r"[a-z][a-z ]{0,40}", fullmatch=True)


@pytest.mark.parametrize("kind", [ALL, *KINDS.values()], ids=lambda kind: kind.name)
@settings(max_examples=10)
@given(st.data())
def test_what_a_form_of_valid_values_makes_the_specification_takes(kind: Any, data: st.DataObject) -> None:
    fields = [*flat(fields_of(schema_of(kind.spec)))]
    typed = {
        each.name: data.draw(valid(each)) for each in fields if each.is_required or data.draw(st.booleans())
    }
    form = RunForm(
        replace(kind, check=lambda _: None), {f"spec.{name}": each for name, each in typed.items()}
    )
    needs_pair = "pair.right" in typed and "pair.left" not in typed
    if needs_pair:
        form = replace(form, typed={**form.typed, "spec.pair.left": "1"})
    spec = form.body().spec
    read = msgspec.to_builtins(msgspec.convert(spec, kind.spec))
    for name, text in typed.items():
        told: Any = spec
        for step in FIELDS[name].path if name in FIELDS and kind is ALL else name.split("."):
            told = told[step]
        assert (
            told is None or text.strip() in (shown(told), str(told), repr(told)) or json.loads(text) == told
        )
    assert set(read) == set(kind.spec.__struct_encode_fields__)


@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from([f"spec.{name}" for name in FIELDS] + ["priority", "labels"]), st.text())
)
def test_whatever_is_typed_is_a_run_or_words(typed: dict[str, str]) -> None:
    with suppress(Unfit):
        RunForm(ALL, typed).body()
        return
    assert problems_of(typed)


def test_a_place_in_a_message_is_a_field_or_what_holds_it() -> None:
    assert placed("Expected `int` - at `$.a.b c`") == (("a", "b c"), "Expected `int`")
    assert placed("Expected `int` - at `$.a[1].b`") == (("a",), "Expected `int` - at `$.a[1].b`")
    assert placed("Expected `int` - at `key` in `$.a`") == (("a",), "Expected `int` - at `key` in `$.a`")
    missing = "Object missing required field `c`"
    assert placed(f"{missing} - at `$.a`") == (("a", "c"), missing)
    assert placed("not so") == ((), "not so")
    assert complaints(Requirements, {"pod": "pod-7/3f2a"}) == {("pod",): NOT_OF_PATTERN}


def test_no_field_hides_the_next_and_a_missing_one_is_told_once() -> None:
    limits = {"first": 0, "ratio": "x"}
    found = complaints(ALL.spec, {"text": 5, "count": "x", "limits": limits, "pair": {}})
    paths = {("text",), ("count",), ("limits", "first"), ("limits", "ratio"), ("pair", "left")}
    assert set(found) == paths
    assert limits == {"first": 0, "ratio": "x"}, "what was given is left as it is"
    whole = {"text": "a", "who": "b", "count": 1, "choice": "a"}
    assert complaints(ALL.spec, {**whole, "strange": 1}) == {(): "Object contains unknown field `strange`"}
    assert complaints(ALL.spec, whole) == {}
    assert set(complaints(ALL.spec, {"text": "a", "who": "b", "count": 1})) == {("choice",)}


def test_the_page_has_a_field_of_each_type_with_its_label_its_default_and_its_problem() -> None:
    typed = {"spec.text": '"<i>', "spec.rates": "{<b>", "spec.limits.first": "0", "spec.flag": "false"}
    form = RunForm(ALL, typed)
    problems = {
        "spec.rates": "no <JSON>",
        "spec.limits.first": "too small",
        "spec.pair": "not so",
        "": "at all",
    }
    page = Pages("").page(
        "new_run.html", kinds=[ALL], form=form, parts=form.shown(problems), problems=problems, found=None,
        pressed="P", where="nowhere", cost="nothing", commands=None,
    )  # fmt: skip
    html = bytes(page.body).decode()
    assert "<b>" not in html
    assert "<i>" not in html
    names = re.findall(r'<(?:input|select|textarea) id="f\d+" name="([^"]+)"', html)
    assert len(names) == len({*names})
    assert {each.removeprefix("spec.") for each in names if each.startswith("spec.")} == {*FIELDS}
    assert {each for each in names if not each.startswith("spec.")} == {
        *("requires.gpu_gib", "requires.gpus", "requires.gpu", "requires.region"),
        *("requires.labels", "requires.pod"),
        *("priority", "max_attempts", "queue_limit_s", "not_before", "labels", "secrets", "project"),
        "after",
    }
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len({*ids})
    assert {each for list_ in re.findall(r'aria-describedby="([^"]+)"', html) for each in list_.split()} <= {
        *ids
    }
    assert {*re.findall(r'<label for="([^"]+)"', html)} == {
        each for each in ids if re.fullmatch(r"f\d+", each)
    }
    assert re.search(r'name="spec.rates"[^>]*aria-invalid="true"[^>]*>\n\{&lt;b&gt;</textarea>', html)
    assert re.search(r'name="spec.text"[^>]*value="&#34;&lt;i&gt;"', html)
    assert re.search(r'name="spec.number"[^>]*value=""[^>]*placeholder="1.5"', html)
    assert (
        '<option value="">default: true</option><option>true</option><option selected>false</option>' in html
    )
    assert '<option value="">choose</option><option>a</option>' in html
    assert html.count("no &lt;JSON&gt;") == 2
    assert 'id="spec.pair-problem"' in html
    assert "How many &lt;b&gt;times&lt;/b&gt; it is tried. Integer, at least 1" in html
    assert "<details><summary>Limits of an attempt" in html, "nothing of it was typed"
