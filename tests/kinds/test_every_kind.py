"""What every kind of run promises: those of the product, and one that comes in a package of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import bson
import msgspec
import pytest
from msgspec import inspect

from control_plane.model import projection
from control_plane.model.kind_packages import templates
from control_plane.model.ownership import OWNERS
from control_plane.model.projection import AttemptView, Update, fold
from control_plane.reads.kinds.parts import parts_of_kinds
from control_plane.server.web.forms.run import RunForm
from control_plane.store.schema import INDEXES
from events.envelope import Event
from events.files.paths import SafeName
from events.kinds import KINDS, read_spec, stages_before, title_of
from events.kinds.declaring.fact import Fact
from events.kinds.declaring.fields import fields_of, flat, schema_of, shown
from events.kinds.declaring.spec import TITLE_MAX, Spec
from events.kinds.kind import DocumentSet, Kind, Position
from events.kinds.packages import loading
from events.kinds.packages.loading import FAMILIES, collections_of, conflicts, load, loaded
from events.runtime.errors import ConfigError, Rejected

HELLO: Final = Path(__file__).parent / "hello"
sys.path.insert(0, str(HELLO))  # as its package would be, once it is installed
from hello_kind import KIND as HELLO_KIND  # noqa: E402

ALL: Final = {**KINDS, HELLO_KIND.name: HELLO_KIND}
FACTS: Final = [(kind, name) for kind in ALL for name in ALL[kind].facts]


@pytest.fixture(autouse=True)
def with_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tables have the kind of the package, too."""
    monkeypatch.setitem(KINDS, HELLO_KIND.name, HELLO_KIND)  # type: ignore[arg-type]
    for fact, project in HELLO_KIND.projections.items():
        monkeypatch.setitem(projection.PROJECTIONS, fact, (HELLO_KIND, project))  # type: ignore[arg-type]


def least(kind: inspect.Type) -> Any:
    """Return the least value that a field of this type takes."""
    match kind:
        case inspect.StrType():
            return "x"
        case inspect.IntType(ge=ge) | inspect.FloatType(ge=ge):
            return ge or 0
        case inspect.BoolType():
            return False
        case inspect.ListType():
            return []
        case inspect.DictType():
            return {}
        case inspect.UnionType(types=types):
            return None if any(isinstance(each, inspect.NoneType) for each in types) else least(types[0])
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.Metadata(type=inner):
            return least(inner)
    raise AssertionError(f"say here what the least of {kind} is")


def least_fact(fact: type[Fact]) -> Fact:
    described = inspect.type_info(fact)
    assert isinstance(described, inspect.StructType)
    return fact(**{each.name: least(each.type) for each in described.fields if each.required})


def event(fact: Fact, event_type: str, sequence: int = 1, time: str | None = None) -> Event:
    return Event(
        id=str(sequence), source="//pod", type=event_type, run_id="R", attempt=2, sequence=sequence,
        time=time, data=msgspec.to_builtins(fact), fact=fact,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ALL.values(), ids=ALL)
class TestKind:
    """One kind."""

    def test_it_stands_beside_the_others(self, kind: Kind) -> None:
        others = {name: each for name, each in ALL.items() if name != kind.name}
        assert list(conflicts(kind, others)) == []
        assert kind.says.endswith(".")

    def test_its_specification_has_a_schema_and_an_example_that_can_be_run(self, kind: Kind) -> None:
        spec = read_spec(kind.name, kind.example)
        schema = msgspec.json.schema(kind.spec)
        (form,) = [each for name, each in schema["$defs"].items() if name == kind.spec.__name__]
        assert set(form["properties"]) == {field.encode_name for field in msgspec.structs.fields(kind.spec)}
        assert read_spec(kind.name, msgspec.to_builtins(spec)) == spec, "what is stored is read again"
        assert 0 < len(title_of(kind.name, spec)) <= TITLE_MAX
        assert {"start_limit_s", "time_limit_s", "no_progress_s"} <= set(form["properties"])

    def test_a_form_that_says_its_example_is_a_run_of_it(self, kind: Kind) -> None:
        typed = {}
        for field in flat(fields_of(schema_of(kind.spec))):
            value: Any = kind.example
            for step in field.path:
                value = value.get(step, {})
            if value != {}:
                typed[f"spec.{field.name}"] = shown(value)
        assert RunForm(kind, typed).body().spec == kind.example

    def test_a_field_that_there_is_not_is_refused_with_those_that_there_are(self, kind: Kind) -> None:
        with pytest.raises(Rejected, match=r"unknown field `nonsense`; known: .*time_limit_s"):
            read_spec(kind.name, {**kind.example, "nonsense": 1})

    def test_its_pipeline_is_there(self, kind: Kind) -> None:
        found = find_spec(kind.pipeline)
        assert found is not None
        assert found.origin is not None
        assert "\ndef run(context: Context) -> str:" in Path(found.origin).read_text()

    def test_a_retry_can_begin_at_each_stage(self, kind: Kind) -> None:
        for number, stage in enumerate(kind.stages):
            assert SafeName(stage) == stage, "it leaves a checkpoint of this name"
            assert stages_before(kind.name, stage) == kind.stages[:number]
        assert not kind.beside & set(kind.stages)

    def test_its_labels_are_fields_of_its_specification(self, kind: Kind) -> None:
        assert set(kind.labels.values()) <= set(kind.spec.__struct_fields__)

    def test_its_codes_are_upper_case_with_words(self, kind: Kind) -> None:
        for code, step in kind.codes.items():
            assert code == code.upper()
            assert step.endswith(".")

    def test_its_documents_have_fields_writers_and_an_index(self, kind: Kind) -> None:
        for each in kind.documents:
            assert not {"_id", "runId", "attempt", "seq"} & set(each.fields)
            assert len(set(each.fields)) == len(each.fields) > 0
        if kind.name in KINDS and kind is not HELLO_KIND:
            for name in collections_of(kind):
                assert OWNERS[name]
                assert INDEXES[name]


@pytest.mark.parametrize(("kind", "name"), FACTS)
class TestFact:
    """One fact of a kind."""

    def test_it_is_explained_and_of_a_family_of_its_own(self, kind: str, name: str) -> None:
        fact = ALL[kind].facts[name]
        assert fact.__doc__
        assert not name.startswith(FAMILIES)

    def test_it_travels_as_json(self, kind: str, name: str) -> None:
        said = least_fact(ALL[kind].facts[name])
        assert msgspec.json.decode(msgspec.json.encode(said), type=type(said)) == said

    def test_its_line_takes_whatever_it_may_say(self, kind: str, name: str) -> None:
        line = ALL[kind].lines.get(name)
        if line is not None:
            assert line(msgspec.to_builtins(least_fact(ALL[kind].facts[name]))) is not None

    def test_folding_it_twice_writes_the_same_documents_of_its_kind(self, kind: str, name: str) -> None:
        fact = least_fact(ALL[kind].facts[name])
        first = projection.project(AttemptView("R", 2), event(fact, name))
        assert not isinstance(first, projection.SetAside)
        assert first == projection.project(AttemptView("R", 2), event(fact, name))
        writes = first.writes if isinstance(first, Update) else ()
        for each in writes:
            assert each.collection in set(collections_of(ALL[kind]))
            assert each.id.startswith("R/a2/")
            assert (each.fields["runId"], each.fields["attempt"], each.seq) == ("R", 2, 1)
            assert bson.encode(dict(each.fields))
        again = fold(AttemptView("R", 2), [event(fact, name, 1), event(fact, name, 2)], 0)
        assert again.set_aside == []


def broken(problem: str) -> Mapping[str, Any]:
    def fails(fact: Fact, position: Position) -> Iterator[Any]:
        match problem:
            case "it raises":
                raise ZeroDivisionError("no")
            case "another's collection":
                yield projection.Projected("runs", "x", {"status": "COMPLETED"})
            case "a field that it does not have":
                yield projection.Projected("greetings", "x", {"status": "COMPLETED"})

    return dict.fromkeys(HELLO_KIND.projections, (HELLO_KIND, fails))


@pytest.mark.parametrize("problem", ["it raises", "another's collection", "a field that it does not have"])
def test_a_projection_that_fails_sets_its_event_aside_and_no_other(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = least_fact(HELLO_KIND.facts["ai.hello.greeted"])
    for each, entry in broken(problem).items():
        monkeypatch.setitem(projection.PROJECTIONS, each, entry)  # type: ignore[arg-type]
    events = [event(fact, "ai.hello.greeted", 1), event(fact, "ai.hello.greeted", 2)]
    folded = fold(AttemptView("R", 2), events, 0)
    assert (folded.seq, folded.writes) == (2, {})
    assert [aside.code for _, aside in folded.set_aside] == ["projection_failed"] * 2
    assert "hello" in folded.set_aside[0][1].reason


class WithCode(Spec, frozen=True):
    """A specification with code of its own."""

    def __post_init__(self) -> None:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "probe"}, "there is a kind 'probe' already"),
        ({"name": "Not a name"}, "is not made of a-z"),
        ({"facts": {"ai.run.completed": Fact}}, "is not of a family of its own"),
        ({"facts": {"com.else": Fact}}, "is not of a family of its own"),
        ({"facts": {"ai.node.created": Fact}}, "there is an event 'ai.node.created' already"),
        ({"facts": {}}, "it projects Greeted, which is no event of its own"),
        ({"documents": KINDS["ideation"].documents}, "there is a collection 'ideas' already"),
        ({"nouns": KINDS["ideation"].nouns}, "there is a collection 'hypotheses' already"),
        ({"labels": {"to": "nothing"}}, "its label 'to' is taken from 'nothing'"),
        ({"documents": (DocumentSet("x", "x", ("to", "runId")),)}, "name a field 'runId', which every"),
        ({"documents": (DocumentSet("system.x$", "x", ("to",)),)}, "the collection 'system.x$' is not made"),
        ({"spec": WithCode}, "WithCode has a `__post_init__`, which nothing bounds"),
        ({"spec": Fact}, "its specification Fact does not extend `Spec`"),
    ],
)
def test_a_kind_that_takes_what_is_anothers_is_refused(changes: dict[str, Any], says: str) -> None:
    known = {name: kind for name, kind in KINDS.items() if kind is not HELLO_KIND}
    problems = list(conflicts(replace(HELLO_KIND, **changes), known))
    assert any(says in problem for problem in problems), problems


SHAPELESS: Final = replace(HELLO_KIND, name=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("no_such_package_here:KIND", "ModuleNotFoundError"),
        ("hello_kind:GREETINGS", "is no `Kind`"),
        ("events.kinds.probe:KIND", "there is a kind 'probe' already"),
        ("tests.kinds.test_every_kind:SHAPELESS", "TypeError"),
    ],
)
def test_a_package_whose_kind_cannot_be_had_stops_the_program_in_words(
    value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("hello", value, loading.GROUP)
    monkeypatch.setattr(loading, "entry_points", lambda group: [point])
    with pytest.raises(ConfigError, match=r"kind 'hello' of an installed package: .*uninstall") as caught:
        load(("experiment", "ideation", "probe"), "events.kinds")
    assert says in str(caught.value)


def test_a_package_whose_import_ends_the_program_ends_it_with_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "leaving_kind.py").write_text("import sys; sys.exit('\x1b[31m')")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("leaving", "leaving_kind:KIND", loading.GROUP)
    monkeypatch.setattr(loading, "entry_points", lambda group: [point])
    with pytest.raises(SystemExit) as ended:
        loaded((), "events.kinds")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(
        "kind 'leaving' of an installed package: SystemExit: \\x1b[31m;"
    )


def test_a_package_that_cannot_be_imported_is_named_with_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "hello", replace(HELLO_KIND, package="no_such_package.control_plane"))  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=r"kind 'hello': no_such_package.control_plane.parts cannot be imported: Mod"
    ):
        parts_of_kinds()
    with pytest.raises(ConfigError, match=r"no_such_package.control_plane cannot be imported: Mod"):
        templates()


def test_a_package_without_a_file_has_no_templates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bare_kind").mkdir()
    (tmp_path / "templates").mkdir()  # of the folder in which the program runs
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(KINDS, "hello", replace(HELLO_KIND, package="bare_kind"))  # type: ignore[arg-type]
    assert "hello" not in templates()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("status", "its part 'status' has the name of a field of every run"),
        ("truncated", "its part 'truncated' has the name of a field of every run"),
        ("nodes", "its part 'nodes' has the name of a field of the kind experiment"),
    ],
)
def test_a_part_named_as_another_field_of_a_run_is_refused(
    name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = replace(parts_of_kinds()["hello"][0], name=name)
    monkeypatch.setattr("hello_kind.control_plane.parts.PARTS", (part,))
    with pytest.raises(ConfigError, match=says):
        parts_of_kinds()
