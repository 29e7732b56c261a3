"""`python -m testing.mutation.maker FILE NAME COUNT SEED`: makes mutants, in mutmut's own environment.

The faults are mutmut's operators; where they are planted, and which of them, is decided here. Annotations and
decorators stay as they are: at run time the former are nothing, and the latter mostly the whole class.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

from testing.mutation.mutants import Change, Mutant, equivalents, mutant, order


class Place(NamedTuple):
    """A change, and the nodes that it is about."""

    change: Change
    old: cst.CSTNode
    new: cst.CSTNode


def places(module: cst.Module, node: cst.CSTNode, scope: str = "") -> Iterator[Place]:
    """Yield every node from `node` down that an operator changes, with what it would be instead."""
    if isinstance(node, cst.Annotation | cst.Decorator) or _is_type(node):
        return
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        scope = f"{scope}.{node.name.value}"
    for kind, operator in mutation_operators:
        for changed in operator(node) if isinstance(node, kind) else ():
            old, new = (module.code_for_node(each) for each in (node, changed))
            yield Place(Change(scope=scope, old=old, new=new), node, changed)
    for child in node.children:
        yield from places(module, child, scope)


def made(source: str, name: str, seed: int) -> Iterator[Mutant]:
    """Yield the mutants of a module in the order in which they are drawn, each text once."""
    module = cst.MetadataWrapper(cst.parse_module(source)).module  # a copy in which no node stands twice
    found = list(places(module, module))
    left_out = equivalents(name)
    seen = {ast.dump(ast.parse(source))}
    for number in order([place.change for place in found], seed):
        text = module.deep_replace(found[number].old, found[number].new).code
        tree = _tree(text)
        if tree is None or tree in seen:
            continue
        seen.add(tree)
        one = mutant(source, text)
        if (one.before, one.after) not in left_out:
            yield one


def main() -> None:
    """Write the drawn mutants."""
    path, name, count, seed = sys.argv[1:]
    mutants = made(Path(path).read_text(), name, int(seed))
    json.dump([asdict(each) for each, _ in zip(mutants, range(int(count)), strict=False)], sys.stdout)


def _is_type(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name) and node.value.value == "Literal"
    )


def _tree(text: str) -> str | None:
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return None


if __name__ == "__main__":
    main()
