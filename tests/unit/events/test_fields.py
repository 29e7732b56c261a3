"""The fields of a specification, as its schema tells of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.kinds import KINDS
from events.kinds.declaring.fields import Field, fields_of, flat, schema_of, shown
from events.queue.requirements import Requirements
from tests.unit.events.all_fields import ALL, WORDS

FIELDS = {each.name: each for each in fields_of(schema_of(ALL.spec))}


def test_what_follows_from_the_id_of_a_run_has_no_default_to_show() -> None:
    shown_defaults = {
        f"{kind.name}.{field.name}": field.default_words
        for kind in KINDS.values()
        for field in flat(fields_of(schema_of(kind.spec)))
        if field.name in kind.drawn
    }
    assert shown_defaults == {"experiment.seed": ""}


@pytest.mark.parametrize(
    ("name", "shape", "words", "default"),
    [
        ("text", "text", "text, at least 1 character, at most 50 characters, matching [^!]*", ""),
        ("who", "either", "text or Person", ""),
        ("count", "integer", "integer, at least 1, at most 10", ""),
        ("choice", "choice", "one of a, b", ""),
        ("number", "number", "number, above 0, below 100", "1.5"),
        ("long_text", "text", "text, at most 5000 characters", ""),
        ("flag", "choice", "true or false", "true"),
        ("maybe_text", "text", "text", ""),
        ("maybe_number", "number", "number, at least 0", ""),
        ("until_number", "integer", "integer", "7"),
        ("until_text", "either", "text", "never"),
        ("until_choice", "choice", "one of x, y", "x"),
        ("level", "choice", "one of null, 1, 2", "1"),
        ("steps", "either", "integer or text", "3"),
        ("either_number", "number", "integer or number", "1"),
        ("names", "json", "list of text, at most 3 entries", "[]"),
        ("rates", "json", "object", "{}"),
        ("anything", "json", "JSON", ""),
        ("limits", "group", "Limits", '{"first": null, "ratio": 0.5, "is_hard": false, "mode": "slow"}'),
        ("pair", "group", "Pair", ""),
    ],
)
def test_each_type_has_its_shape_and_its_words(name: str, shape: str, words: str, default: str) -> None:
    field = FIELDS[name]
    assert (field.shape, field.words, field.default_words) == (shape, words, default)


def test_what_is_said_of_a_field_is_told_in_one_line() -> None:
    assert FIELDS["count"].says == WORDS
    assert FIELDS["limits"].says == "Limits of each part."
    assert [each.name for each in FIELDS["limits"].fields] == [
        "limits.first", "limits.ratio", "limits.is_hard", "limits.mode",
    ]  # fmt: skip
    assert {name for name, each in FIELDS.items() if each.is_required} == {"text", "who", "count", "choice"}
    assert {name for name, each in FIELDS.items() if each.is_long} == {
        "who", "long_text", "names", "rates", "anything", "deep",
    }  # fmt: skip


def test_a_pattern_that_no_person_reads_is_not_told_and_the_field_says_what_it_takes() -> None:
    asked = {each.name: each for each in fields_of(schema_of(Requirements))}
    assert asked["region"].words == "text, matching [A-Za-z0-9._-]{1,64}"
    assert (asked["pod"].words, asked["pod"].is_nullable) == ("text", True)
    assert "Name of a pod" in asked["pod"].says


def test_a_value_that_may_be_null_is_a_choice_where_that_is_not_its_default() -> None:
    assert FIELDS["until_choice"].choices == ("x", "y", None)
    assert FIELDS["until_choice"].texts == ("x", "y", "null")
    assert FIELDS["level"].choices == (None, 1, 2)
    assert FIELDS["until_text"].takes == {"null"}
    assert not FIELDS["maybe_text"].takes


def test_one_that_has_to_be_told_can_be_told_to_be_null() -> None:
    null = [{"type": "string"}, {"type": "null"}]
    schema = {"properties": {"name": {"anyOf": null}}, "required": ["name"]}
    (field,) = fields_of(schema)
    assert (field.shape, field.takes, field.is_required) == ("either", {"null"}, True)


def test_limits_of_one_are_said_in_the_singular_and_a_long_text_is_longer_than_a_line() -> None:
    schema = {
        "properties": {
            "list": {"type": "array", "minItems": 1, "maxItems": 11},
            "line": {"type": "string", "maxLength": 200},
            "lines": {"type": "string", "maxLength": 201},
        }
    }
    fields = fields_of(schema)
    assert fields[0].limits == "at least 1 entry, at most 11 entries"
    assert [each.is_long for each in fields] == [True, False, True]


def test_choices_that_are_typed_alike_are_json() -> None:
    schema = {"properties": {"one": {"enum": ["1", 1]}, "empty": {"enum": ["", "a"]}}}
    assert [each.shape for each in fields_of(schema)] == ["json", "json"]


def test_every_kind_has_a_field_for_each_of_its_own() -> None:
    for kind in KINDS.values():
        fields = fields_of(schema_of(kind.spec))
        assert [each.name for each in fields] == list(kind.spec.__struct_encode_fields__)
        assert all(each.fields for each in fields if each.shape == "group")


def test_a_type_that_the_library_does_not_know_is_any_json() -> None:
    class Strange(msgspec.Struct, frozen=True):
        what: complex

    assert fields_of(schema_of(Strange))[0].shape == "json"


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
WORDS_OF_SCHEMAS = st.sampled_from(
    [
        *("type", "anyOf", "enum", "properties", "required", "$ref", "$defs", "default", "description"),
        *("items", "title", "maxLength", "minimum", "pattern", "format"),
    ]
)
NODE = st.dictionaries(
    WORDS_OF_SCHEMAS,
    HOSTILE | st.sampled_from(["object", "string", "array", "#/$defs/A"]) | st.lists(HOSTILE, max_size=2),
    max_size=5,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(max_size=4), NODE, max_size=3), st.dictionaries(st.just("A"), NODE))
def test_a_schema_that_lies_breaks_nothing(properties: dict[str, Any], definitions: dict[str, Any]) -> None:
    for each in flat(
        fields_of({"$ref": "#/$defs/T", "$defs": {**definitions, "T": {"properties": properties}}})
    ):
        assert isinstance(each, Field)
        assert isinstance(f"{each.words} {each.says} {each.default_words} {each.texts}", str)


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert fields_of({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}) == ()
    inner = {"properties": {"a": {"$ref": "#/$defs/A"}}}
    assert [each.shape for each in fields_of({"$ref": "#/$defs/A", "$defs": {"A": inner}})] == ["json"]


def test_a_long_value_is_cut() -> None:
    assert (len(shown("x" * 500)), shown([1, "é"])) == (200, '[1, "é"]')
