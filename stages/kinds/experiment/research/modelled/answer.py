"""Parses a program that a model wrote: its plan, its choices, what it varies; pure.

Law: nothing here executes it. An answer of another form gets one sentence by which the model can correct it.
"""

from __future__ import annotations

import ast
import math
import re
import unicodedata
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from events.kinds.space.recipe import Value
from stages.kinds.experiment.judging.switch import beyond_switch, literals_of
from stages.kinds.experiment.research.proposal import NoProposal
from stages.kinds.experiment.tree import UNVARIED

CODE_MAX_BYTES: Final = 40_000
PARAMS_MAX: Final = 20
PLAN_MAX: Final = 400
CONDITION_MAX: Final = 60
NAME_MAX: Final = 40
WORD_MAX: Final = 120  # characters of a choice that is text
SITES_MAX: Final = 5  # of what else differs, that the model is told
WHOLE_MAX: Final = 2**53  # whole numbers beyond it are not the same in every reader of the events

_FOR_PEOPLE: Final = frozenset({"PLAN", "CONDITION"})  # they say what a program does, and do nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A program with its own description."""

    code: str
    plan: str
    params: Mapping[str, Value]
    condition: str


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a program cannot be taken, for its author."""

    reason: str


def read_program(code: str, *, varies: bool = False) -> Written | Flaw:
    """Return the description in `code`; `varies` is whether it must name a condition."""
    if len(code.encode("utf-8", "replace")) > CODE_MAX_BYTES:
        return Flaw(f"The program is longer than {CODE_MAX_BYTES} bytes.")
    tree = _parsed(code)
    if isinstance(tree, Flaw):
        return tree
    if not any(
        isinstance(each, ast.FunctionDef) and each.name == "run" and each.args.args for each in tree.body
    ):
        return Flaw("The program defines no function run(task) at its top level.")
    said = dict(literals_of(tree))
    plan, condition = said.get("PLAN"), said.get("CONDITION", "")
    if not isinstance(plan, str) or not one_line(plan, PLAN_MAX):
        return Flaw("The program assigns no text to PLAN at its top level, as one plain literal.")
    params = _params(said.get("PARAMS"))
    if isinstance(params, Flaw):
        return params
    condition = one_line(condition, CONDITION_MAX) if varies and isinstance(condition, str) else ""
    if varies and condition.casefold() in ("", UNVARIED):
        return Flaw("The program does not say in CONDITION, as one plain literal, what it varies.")
    return Written(code=code, plan=one_line(plan, PLAN_MAX), params=params, condition=condition)


def substance(code: str) -> str:
    """Return `code` without what does nothing: comments, layout, and words for people."""
    tree = _parsed(code)
    if isinstance(tree, Flaw):
        return " ".join(code.split())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = [each for each in node.body if not _is_for_people(each)] or [ast.Pass()]
    try:
        return ast.unparse(tree)
    except RecursionError:
        return " ".join(code.split())


def one_line(text: str, length: int) -> str:
    """Return `text` as one line that every reader of the events can show, cut at `length`."""
    sound = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate breaks whatever encodes it
    plain = "".join(" " if unicodedata.category(each) in ("Cc", "Cf") else each for each in sound)
    line = " ".join(plain.split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


@dataclass(slots=True)
class ProgramFilter:
    """Accepts one program: whole, and none of the `known` ones; the same again ends the asking.

    With `switches` it must read the switch, which must change one thing alone.
    """

    known: frozenset[str]
    conditions: frozenset[str] = frozenset()
    varies: bool = False
    switches: bool = False
    refusals: int = field(default=0, init=False)

    def problem(self, code: str) -> str | None:
        """Return what is wrong with `code`. Raises `NoProposal` where it was tried already, for the second time."""
        written = read_program(code, varies=self.varies)
        if isinstance(written, Flaw):
            return written.reason
        if self.switches and (beyond := beyond_switch(code)):
            more = "; ".join(beyond[:SITES_MAX])
            return f"With task.intervention True and False one thing may differ, the intervention: {more}."
        if substance(code) in self.known:
            return self._tried("This program")
        if written.condition.casefold() in {each.casefold() for each in self.conditions}:
            return self._tried(f"The condition {written.condition!r}")
        return None

    def _tried(self, what: str) -> str:
        self.refusals += 1
        if self.refusals > 1:
            raise NoProposal("the model proposed twice what was already tried")
        return f"{what} was already tried; propose something that differs in substance."


def _parsed(code: str) -> ast.Module | Flaw:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # what the compiler thinks of its style is the program's own matter
            return ast.parse(code)
    except SyntaxError as error:
        return Flaw(f"The program does not parse: {error.msg} (line {error.lineno}).")
    except (ValueError, RecursionError, MemoryError) as error:
        return Flaw(f"The program does not parse: {type(error).__name__}.")


def _params(said: Any) -> dict[str, Value] | Flaw:
    if not isinstance(said, dict):
        return Flaw(
            "The program assigns no flat dictionary to PARAMS at its top level, as one plain literal."
        )
    if len(said) > PARAMS_MAX:
        return Flaw(f"PARAMS has more than {PARAMS_MAX} entries.")
    params: dict[str, Value] = {}
    for name, value in said.items():
        if not isinstance(name, str) or not re.fullmatch(rf"[A-Za-z_][A-Za-z0-9_]{{0,{NAME_MAX - 1}}}", name):
            return Flaw(f"PARAMS has the key {str(name)[:NAME_MAX]!r}; keys are plain names in snake_case.")
        if not _is_plain(value):
            return Flaw(f"PARAMS[{name!r}] is no text, finite number or boolean of usual size.")
        params[name] = one_line(value, WORD_MAX) if isinstance(value, str) else value
    return params


def _is_plain(value: object) -> bool:
    match value:
        case bool() | str():
            return True
        case int():
            return abs(value) <= WHOLE_MAX
        case float():
            return math.isfinite(value)
        case _:
            return False


def _is_for_people(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in _FOR_PEOPLE
        case _:
            return False
