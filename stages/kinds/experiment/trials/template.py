"""Writes the built-in researcher's programs: the template with a recipe in it.

Law: the program that is executed is the whole truth: nothing of a recipe acts outside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from events.kinds.space.recipe import Recipe, Value
from stages.kinds.experiment.judging.switch import literals_of

_PLACE: Final = re.compile(r"# <recipe>\n.*?# </recipe>\n", re.DOTALL)


def program_for(recipe: Recipe, switch: Mapping[str, Value] = MappingProxyType({})) -> str:
    """Return the program that trains by `recipe`, and by `switch` instead where its intervention is on."""
    return _written(recipe.params(), switch)


def _written(recipe: Mapping[str, Value], switch: Mapping[str, Value]) -> str:
    source = files("stages.kinds.experiment.trials").joinpath("program.py").read_text(encoding="utf-8")
    literals = f"RECIPE = {_literal(recipe)}\nSWITCH = {_literal(switch)}\n"
    return _PLACE.sub(lambda _: literals, source, count=1)


def is_own(code: str) -> bool:
    """Return whether a program is the template, with whatever recipe."""
    try:
        said = dict(literals_of(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    recipe, switch = said.get("RECIPE"), said.get("SWITCH")
    return isinstance(recipe, dict) and isinstance(switch, dict) and code == _written(recipe, switch)


def _literal(choices: Mapping[str, Value]) -> str:
    lines = "".join(f'    "{name}": {value!r},\n' for name, value in choices.items())
    return f"{{\n{lines}}}" if lines else "{}"
