"""The form of a new run, made from the schema of its kind: its fields, and the run that it describes.

Law: no kind is named here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from control_plane.server.api.contract.bodies import NewRun
from control_plane.server.web.forms.fields import Unfit
from control_plane.server.web.forms.parts import (
    AFTER,
    Input,
    Part,
    body_of,
    of_requirements,
    option_parts,
    shown,
    typed_as,
)
from control_plane.server.web.forms.validation_errors import Path, complaints
from events.kinds import problem_with
from events.kinds.declaring.fields import arranged, fields_of, is_limit, schema_of
from events.kinds.kind import Kind

_NAMED: Final = re.compile(r"`([^`]*)`")


@dataclass(frozen=True, slots=True)
class RunForm:
    """A new run of `kind`: the typed texts, by the names of the fields.

    A quick one asks for the few fields of the kind's quick start, and has the others aside.
    """

    kind: Kind
    typed: Mapping[str, str]
    is_quick: bool = False

    @classmethod
    def quick(cls, kind: Kind) -> RunForm:
        """Return the form of a kind's quick start, filled in as its example."""
        like = cls.like(kind, {"spec": kind.example})
        return cls(kind, like.typed, is_quick=kind.quick is not None)

    @classmethod
    def like(cls, kind: Kind, body: Mapping[str, Any]) -> RunForm:
        """Return the filled-in form of a run with this specification and these options."""
        return cls(kind, typed_as([*cls(kind, {}).parts()], body))

    def parts(self) -> Iterator[Part]:
        """Yield the fields: first those of the specification, and among them the required ones."""
        fields = arranged(fields_of(schema_of(self.kind.spec)))
        limits = [each for each in fields if is_limit(each)]
        own = [each for each in fields if not is_limit(each)]
        plain = [each for each in own if each.shape != "group"]
        quick = self.kind.quick
        suggested = () if quick is None or not quick.models else (quick.models,)
        if quick is not None and self.is_quick:
            known = {each.path[-1]: each for each in plain}
            asked = [known[name] for name in quick.fields if name in known]
            yield Part("", ("spec",), asked, suggested=suggested)
            others = [each for each in plain if each not in asked]
            yield Part("Other fields", ("spec",), others, is_aside=True)
        else:
            yield Part("", ("spec",), plain, suggested=suggested)
        for each in own:
            if each.shape == "group":
                yield Part(each.name, ("spec", each.name), each.fields, each.says)
        yield Part("Limits of an attempt", ("spec",), limits, is_aside=True)
        of_pod, of_run = option_parts()
        yield of_pod
        yield replace(of_run, fields=[*of_run.fields, AFTER])

    def shown(self, problems: Mapping[str, str]) -> list[tuple[Part, list[Input]]]:
        """Return the form as the page shows it, each problem at its field."""
        return shown([*self.parts()], self.typed, problems)

    def body(self) -> NewRun:
        """Return the run. Raises `Unfit` with all problems at once."""
        wanted: dict[str, Any] = {"kind": self.kind.name, "spec": {}, "requires": {}}
        return body_of([*self.parts()], self.typed, wanted, NewRun, self._complaints)

    def problem_of(self, name: str) -> str:
        """Return the problem of the field of this name; empty where it has none."""
        try:
            self.body()
        except Unfit as unfit:
            return unfit.fields.get(name, "")
        return ""

    def _complaints(self, wanted: dict[str, Any], is_whole: bool) -> Iterator[tuple[Path, str]]:
        """Yield the path and the problem of each value that would be refused."""
        found = complaints(self.kind.spec, wanted["spec"])
        yield from ((("spec", *path), words) for path, words in found.items())
        if is_whole and not found:
            problem = problem_with(self.kind, msgspec.convert(wanted["spec"], self.kind.spec))
            if problem is not None:
                named = _NAMED.search(problem)
                yield ("spec", *(named[1].split(".") if named else ())), problem
        yield from of_requirements(wanted, is_whole)
