"""The switch of a program: what differs between its run with the intervention and its run without; pure.

Law: both arms are one text, and `task.intervention` is all that the runs of it are told differently. What the
text makes of it is found by its syntax: each arm is the text with the switch at its value, and what is left by
it is compared. Nothing is executed.
"""

from __future__ import annotations

import ast
import difflib
import functools
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

NAME: Final = "intervention"  # of the task's attribute
CHOICES: Final = ("RECIPE", "PARAMS")  # the literals in which programs keep their choices
SWITCH: Final = "SWITCH"  # the choices that take the place of those above when the switch is on
PROGRAMS_MAX: Final = 8  # of which what is found out is kept: they are asked about again and again
TOO_LONG: Final = "the program is too long for a list of what its switch changes"
LINES_MAX: Final = 60
LINE_MAX: Final = 160
DIFF_LINES_MAX: Final = 2_000  # of an arm: a difference may take the cube of them
MATCHED_MAX: Final = 400  # statements of a block that both arms do not begin or end with; as above
ROUNDS_MAX: Final = 4  # of names that stand for the switch, one through another


@dataclass(frozen=True, slots=True)
class Arms:
    """One program with its switch off, and on."""

    off: ast.Module
    on: ast.Module


@functools.lru_cache(PROGRAMS_MAX)
def arms_of(code: str) -> Arms | None:
    """Return both arms of a program; None where it does not parse. Whoever has them changes nothing."""
    off, on = _parsed(code), _parsed(code)
    if off is None or on is None:
        return None
    try:
        return Arms(_fixed(off, is_on=False), _fixed(on, is_on=True))
    except RecursionError:  # what is parsed may still be too deep to be gone through
        return None


@functools.lru_cache(2 * PROGRAMS_MAX)
def text_of(code: str, *, is_on: bool) -> str | None:
    """Return an arm as a program of its own, which has no switch to read; None where it cannot be written."""
    arms = arms_of(code)
    try:
        return None if arms is None else ast.unparse(arms.on if is_on else arms.off)
    except (ValueError, RecursionError):  # some literals have no text that Python reads
        return None


def _parsed(code: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its style is its own matter
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def reads_switch(code: str) -> bool:
    """Return whether both arms of a program differ at all."""
    arms = arms_of(code)
    return arms is not None and ast.dump(arms.off) != ast.dump(arms.on)


def choices_of(code: str, *, is_on: bool) -> dict[str, Any]:
    """Return the choices that a program is run with, as far as it names them as plain literals."""
    said = _literals_of_text(code)
    found: dict[str, Any] = next((said[name] for name in CHOICES if isinstance(said.get(name), dict)), {})
    switch = said.get(SWITCH)
    return {**found, **switch} if is_on and isinstance(switch, dict) else dict(found)


@functools.lru_cache(PROGRAMS_MAX)
def _literals_of_text(code: str) -> Mapping[str, Any]:
    tree = _parsed(code)
    return {} if tree is None else dict(literals_of(tree))


@functools.lru_cache(PROGRAMS_MAX)
def difference_of(code: str) -> tuple[str, ...]:
    """Return what the switch changes, as lines for people: the choices, then the syntax."""
    off, on = (choices_of(code, is_on=is_on) for is_on in (False, True))
    lines = [f"{name}: {off.get(name)!r} / {on[name]!r}" for name in on if off.get(name) != on[name]]
    arms = arms_of(code) if NAME in code else None
    one, two = ([], []) if arms is None else (_lines_of(arm) for arm in (arms.off, arms.on))
    if max(len(one), len(two)) >= DIFF_LINES_MAX:
        lines.append(TOO_LONG)
    else:
        lines += list(difflib.unified_diff(one, two, "off", "on", lineterm="", n=1))[2:]
    hidden = len(lines) - LINES_MAX
    told = lines if hidden <= 0 else [*lines[: LINES_MAX - 1], f"… and {hidden + 1:,} more lines"]
    return tuple(line[:LINE_MAX] for line in told)


def _lines_of(arm: ast.Module) -> list[str]:
    return ast.unparse(arm).splitlines()


@functools.lru_cache(PROGRAMS_MAX)
def beyond_switch(code: str, fields: frozenset[str] | None = None) -> tuple[str, ...]:
    """Return what differs between both arms and is no intervention, a line each.

    `fields` are the choices that belong to the intervention, where that is known. A number that one arm has in
    the place of another number is a parameter of its own, and so is one that only one arm gives to a name of both; one number may give way to
    something else: the strength of the intervention.
    """
    arms = arms_of(code)
    if arms is None or ast.dump(arms.off) == ast.dump(arms.on):
        return ("the program does not read the switch",)
    if text_of(code, is_on=False) is None or text_of(code, is_on=True) is None:
        return ("the arms cannot be written as programs of their own",)
    off, on = (choices_of(code, is_on=is_on) for is_on in (False, True))
    changed = [name for name in on if off.get(name) != on[name]]
    lines = [
        f"{name}: {off.get(name)!r} / {on[name]!r}"
        for name in changed
        if fields is not None and name not in fields
    ]
    bound = (_bound_names(arms.off), _bound_names(arms.on))
    sites = list(_Comparison(bound).sites(arms.off, arms.on))
    lines += [each.shown for each in sites if each.is_both]
    strengths = [each.shown for each in sites if not each.is_both]
    lines += strengths if len(strengths) > 1 else []
    return tuple(line[:LINE_MAX] for line in lines[:LINES_MAX])


def literals_of(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yield the names that are assigned a plain literal at the top level."""
    for each in tree.body:
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        try:
            yield name, ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue  # computed: not for us to find out


class _Fixer(ast.NodeTransformer):
    """Puts a value in the place of the switch, and leaves out what never runs then."""

    def __init__(self, names: Mapping[str, bool], *, is_on: bool) -> None:
        self.names = names
        self.is_on = is_on

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr == NAME and isinstance(node.ctx, ast.Load):
            return ast.Constant(self.is_on)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.names and isinstance(node.ctx, ast.Load):
            return ast.Constant(self.names[node.id])
        return node

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        truth = _truth_of(node.test)
        return node if truth is None else (node.body if truth else node.orelse) or ast.Pass()

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        truth = _truth_of(node.test)
        return node if truth is None else node.body if truth else node.orelse

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        truth = _truth_of(node.operand)
        return ast.Constant(not truth) if isinstance(node.op, ast.Not) and truth is not None else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        left = [each for each in node.values if _truth_of(each) is not (not decides)]
        if any(_truth_of(each) is decides for each in left):
            return ast.Constant(decides)
        if not left:
            return ast.Constant(not decides)
        return left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _truth_of(node: ast.expr) -> bool | None:
    """Return the truth value that an expression plainly is; None for any other."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _fixed(tree: ast.Module, *, is_on: bool) -> ast.Module:
    names: dict[str, bool] = {}
    for _ in range(ROUNDS_MAX):
        _Fixer(names, is_on=is_on).visit(tree)  # the module itself stays
        found = dict(_standing_in(tree))
        if found.keys() <= names.keys():
            break
        names |= found
    return tree


def _standing_in(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield names that are assigned once in the whole program, and that to a plain truth value."""
    stored = Counter(
        each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    )
    told = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    for each in ast.walk(tree):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=bool() as value)):
                if stored[name] == 1 and name not in told:
                    yield name, value
            case _:
                continue


@dataclass(frozen=True, slots=True)
class _Site:
    """Where one arm has a number and the other another one; not `is_both`: something that is no number."""

    shown: str
    is_both: bool


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Finds the sites of two arms; `stored` are the names that each binds."""

    stored: tuple[frozenset[str], frozenset[str]]

    def sites(self, one: ast.AST, two: ast.AST, shown: str = "") -> Iterator[_Site]:
        if isinstance(one, ast.stmt) and isinstance(two, ast.stmt):
            shown = f"{_shown(one)} / {_shown(two)}"
        if ast.dump(one) == ast.dump(two):
            return
        if _is_number(one) or _is_number(two):
            yield _Site(shown, _is_number(one) and _is_number(two))
            return
        if type(one) is not type(two):
            yield from self._bound([one], self.stored[1])
            yield from self._bound([two], self.stored[0])
            return
        for name in one._fields:
            mine, theirs = getattr(one, name, None), getattr(two, name, None)
            if isinstance(mine, ast.AST) and isinstance(theirs, ast.AST):
                yield from self.sites(mine, theirs, shown)
            elif isinstance(mine, list) and isinstance(theirs, list):
                both = [list(_parts(side)) for side in (mine, theirs)]
                yield from self._in(both[0], both[1], shown)

    def _in(self, mine: Sequence[ast.AST], theirs: Sequence[ast.AST], shown: str) -> Iterator[_Site]:
        """Compare what stands in the same place, after what both have alike."""
        one, two = ([ast.dump(each) for each in side] for side in (mine, theirs))
        for start, end, other, last in _unlike(one, two):
            paired = min(end - start, last - other)
            for left, right in zip(mine[start:end], theirs[other:last], strict=False):
                yield from self.sites(left, right, shown)
            yield from self._bound(mine[start + paired : end], self.stored[1])
            yield from self._bound(theirs[other + paired : last], self.stored[0])

    def _bound(self, only: Sequence[ast.AST], elsewhere: frozenset[str]) -> Iterator[_Site]:
        """Yield where only one arm gives a number to a name that the other has as well."""
        for each in (node for statement in only for node in ast.walk(statement)):
            if isinstance(each, ast.Assign | ast.AugAssign) and _is_number(each.value):
                targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                if any(name in elsewhere for target in targets for name in _names(target)):
                    yield _Site(_shown(each), is_both=True)


def _unlike(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return where two lists differ: from and to in the one, from and to in the other.

    What both begin and end with is left out; a rest that is long is one difference as a whole.
    """
    least = min(len(one), len(two))
    begins = next((place for place in range(least) if one[place] != two[place]), least)
    ends = next(
        (place for place in range(least - begins) if one[-1 - place] != two[-1 - place]), least - begins
    )
    mine, theirs = one[begins : len(one) - ends], two[begins : len(two) - ends]
    if max(len(mine), len(theirs)) > MATCHED_MAX:
        return [(begins, begins + len(mine), begins, begins + len(theirs))]
    found = difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    return [
        (begins + start, begins + end, begins + other, begins + last)
        for tag, start, end, other, last in found
        if tag != "equal"
    ]


def _parts(side: Sequence[Any]) -> Iterator[ast.AST]:
    """Yield what does something."""
    return (each for each in side if isinstance(each, ast.AST) and not isinstance(each, ast.Pass))


def _bound_names(tree: ast.AST) -> frozenset[str]:
    stores = (each for each in ast.walk(tree) if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign))
    targets = (
        target
        for each in stores
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
    )
    return frozenset(name for target in targets for name in _names(target))


def _names(target: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _is_number(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return False
    if isinstance(node.value, str | bytes):
        return _is_written_number(node.value)
    return isinstance(node.value, int | float | complex)


def _is_written_number(text: str | bytes) -> bool:
    """Say whether a text is a number as `int` or `float` reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())
