"""The kinds of run: one row for each, and one more for each that an installed package brings.

A package brings a kind by an entry point of the group `podfleet.kinds` that names its `Kind`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from events.kinds.declaring.fact import Fact
from events.kinds.declaring.spec import TITLE_MAX, Spec
from events.kinds.kind import Kind, Projection
from events.kinds.packages.guarded_call import asked
from events.kinds.packages.loading import loaded
from events.runtime.errors import NotMeasurable, Rejected

ROWS: Final = ("benchmark", "compute", "experiment", "ideation", "image", "job", "probe", "prompt", "trial")
KINDS: Final[Mapping[str, Kind]] = loaded(ROWS, __name__)
# The kind that runs people's own programs, by which commands and clients submit them.
OF_PROGRAMS: Final = next((name for name, kind in KINDS.items() if kind.runs_programs), "")
RUN_KINDS: Final = frozenset(name for name, kind in KINDS.items() if kind.queue.takes_submissions)
FACTS: Final[Mapping[str, type[Fact]]] = {
    name: fact for kind in KINDS.values() for name, fact in kind.facts.items()
}
PROJECTIONS: Final[Mapping[type[Fact], tuple[Kind, Projection]]] = {
    fact: (kind, projection) for kind in KINDS.values() for fact, projection in kind.projections.items()
}
NOUNS: Final = tuple(each for kind in KINDS.values() for each in kind.nouns)
DOCUMENTS: Final = tuple(each for kind in KINDS.values() for each in kind.documents)
WEIGHTS_CHARS_MAX: Final = 500
# Checkpoints that belong to no stage and go with those of all.
BESIDE_STAGES: Final = frozenset[str]().union(*(kind.beside for kind in KINDS.values()))


def kind_of(name: str, *, among: Collection[str] = KINDS) -> Kind:
    """Return the kind of this name. Raises `Rejected` that lists those `among` which it had to be."""
    if name not in among:
        known = ", ".join(sorted(among))
        raise Rejected("unknown_kind", f"unknown kind {name!r}; known kinds: {known}")
    return KINDS[name]


def stages_of(kind: str) -> tuple[str, ...]:
    """Return the stages of a kind in their order; none of a kind that is not installed here."""
    return KINDS[kind].stages if kind in KINDS else ()


def stages_before(kind: str, stage: str) -> tuple[str, ...]:
    """Return the stages of a kind that come before one of them."""
    stages = stages_of(kind)
    return stages[: stages.index(stage)]


def read_spec(kind: str, raw: Mapping[str, Any]) -> Spec:
    """Return the checked specification of a run of `kind`.

    Raises `Rejected` that names the kinds, or the field that is wrong.
    """
    wanted = kind_of(kind)
    try:
        spec = msgspec.convert(dict(raw), wanted.spec)
    except msgspec.ValidationError as error:
        raise Rejected("invalid_spec", f"spec: {error}{known_fields(error, wanted.spec)}") from error
    problem = problem_with(wanted, spec)
    if problem is not None:
        raise Rejected("invalid_spec", f"spec: {problem}")
    return spec


def normal_of(kind: Kind, spec: Spec) -> Spec:
    """Return a specification as runs of a kind store it. Raises `Rejected` where the kind's code fails."""
    normal = kind.normal
    if normal is None:
        return spec

    def found() -> Spec | Rejected:
        return msgspec.convert(msgspec.to_builtins(normal(spec)), kind.spec)

    failed = f"spec: the kind {kind.name!r} could not make it normal"
    made = asked(found, lambda error: Rejected("invalid_spec", f"{failed} ({error}); fix its package"))
    if isinstance(made, Rejected):
        raise made
    return made


def problem_with(kind: Kind, spec: Any) -> str | None:
    """Return what a kind finds wrong with a specification of its form; a check that fails finds that."""

    def check() -> str | None:
        found: object = kind.check(spec)
        return None if found is None else str(found)

    return asked(
        check, lambda error: f"the check of the kind {kind.name!r} failed ({error}); fix its package"
    )


def known_fields(error: msgspec.ValidationError, form: type[msgspec.Struct]) -> str:
    """Return the fields that there are, where `error` names another one at the top."""
    if "unknown field" not in str(error) or " - at " in str(error):
        return ""
    return f"; known: {', '.join(form.__struct_fields__)}"


def measures(kind: str, spec: Spec) -> str:
    """Return what a run measures, in words; empty where it claims nothing.

    Raises `Rejected`: a `NotMeasurable`, or one that says that the kind's code failed.
    """

    def words() -> str | Rejected:
        try:
            found: object = KINDS[kind].measures(spec)
        except NotMeasurable as error:
            return error
        return " ".join(str(found or "").split())  # one line: a form sends no other back as it was

    failed = f"spec: the kind {kind!r} could not say what is measured"
    found = asked(words, lambda error: Rejected("invalid_spec", f"{failed} ({error}); fix its package"))
    if isinstance(found, Rejected):
        raise found
    return found


def weights_of(kind: str, spec: Spec) -> str:
    """Return the name of the model that a run loads; empty where it loads none, or its kind cannot say."""
    named = KINDS[kind].weights

    def name() -> str:
        found: object = "" if named is None else named(spec)
        return found[:WEIGHTS_CHARS_MAX] if isinstance(found, str) else ""

    return asked(name, lambda _: "")


def title_of(kind: str, spec: Spec) -> str:
    """Return the line under which people find the run."""

    def title() -> str:
        found: object = KINDS[kind].title(spec)
        return found[:TITLE_MAX] if isinstance(found, str) else ""

    return asked(title, lambda _: "") or kind
