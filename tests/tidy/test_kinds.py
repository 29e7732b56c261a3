"""A kind of run is named in its own packages, and nowhere else; the packages of one kind know no other's."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from events.kinds import ROWS
from testing.mutation.related_tests import imports

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("podfleet", "control_plane", "pod_worker", "events", "stages")
# Kinds of one folder may share types: what an idea is stands in `events/kinds/idea.py`.
TABLES: Final = ("events/kinds/", "events/answers/kinds/", "control_plane/kinds/", "podfleet/kinds/")
OWN: Final = (*TABLES, *(f"stages/kinds/{kind}/" for kind in ROWS))
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# A word that other parts have of their own: a pod's part has a trial, and so has a study; a model is asked a
# prompt. As a name of Python it says nothing; as a text, a module or an event it is the kind.
COMMON: Final = frozenset({"compute", "image", "job", "prompt", "trial"})
# One that others have as a text, too: the image of a container, a picture among the files of a run.
TEXTS: Final = frozenset({"image"})
_MODULE: Final = re.compile(rf"(?:ai|.*\.kinds|kinds)\.(?:{'|'.join(ROWS)})(?:\..*)?")


def named(source: str) -> Iterator[str]:
    """Yield each place at which a source names a kind: a line and what stands there.

    Texts count where they are the name, or a module's or an event's. Docstrings do not.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)):
                found = []
                if text in {*ROWS} - TEXTS or _MODULE.fullmatch(text):
                    yield f"{node.lineno}: {text}"
            case ast.Name(id=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found = [name]
            case ast.Attribute(attr=name):
                found = [name]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found = [name]
            case ast.Import(names=aliases):
                found = [alias.name for alias in aliases]
            case ast.ImportFrom(module=module, names=aliases):
                found = [f"{module}.{alias.name}" for alias in aliases]
            case _:
                continue
        for each in found:
            words = {word.lower() for word in _WORD.findall(each)}
            if words & {*ROWS} - COMMON or _MODULE.fullmatch(each):
                yield f"{getattr(node, 'lineno', '?')}: {each}"


def test_a_kind_is_named_in_its_packages_only() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{place}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(OWN)
        for place in named(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        'if kind == "probe": pass',
        "from stages.kinds.probe.pipeline import run",
        "from events.kinds import experiment",
        "spec = ProbeSpec()",
        'load("stages.kinds.ideation.pipeline")',
        'wanted = {"type": "ai.ideation.failed"}',
        "def of_experiment(): pass",
        "submit(probe=1)",
        'if kind == "trial": pass',
        "from events.kinds.trial import TrialSpec",
        "import stages.kinds.trial.points",
    ],
)
def test_a_name_is_found(line: str) -> None:
    assert list(named(line))


@pytest.mark.parametrize(
    "line", ['"""The probe of a pod."""', 'x = "to probe"', "approbe = 1", "class Trial: pass"]
)
def test_what_is_no_name_is_let_be(line: str) -> None:
    assert not list(named(line))


@functools.cache
def _modules() -> dict[str, set[str]]:
    return imports(ROOT, ("stages", "control_plane"))


@pytest.mark.parametrize("kind", ROWS)
def test_pipelines_and_pages_of_one_kind_know_no_other_kind(kind: str) -> None:
    others = tuple(
        f"{folder}/{other}/"
        for folder in ("stages", "control_plane/kinds")
        for other in ROWS
        if other != kind
    )
    own = (f"stages/kinds/{kind}/", f"control_plane/kinds/{kind}/")
    found = [
        f"{file} -> {each}"
        for file, imported in _modules().items()
        if file.startswith(own)
        for each in imported
        if each.startswith(others)
    ]
    assert found == []
