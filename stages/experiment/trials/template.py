"""Writes the built-in researcher's programs: the template with a recipe in it.

Law: the program that is executed is the whole truth: nothing of a recipe acts outside it.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from events.kinds.space.recipe import Recipe

_PLACE: Final = re.compile(r"# <recipe>\n.*?# </recipe>\n", re.DOTALL)


def program_for(recipe: Recipe) -> str:
    """Return the program that trains by `recipe`."""
    source = files("stages.experiment.trials").joinpath("program.py").read_text(encoding="utf-8")
    choices = "".join(f'    "{name}": {value!r},\n' for name, value in recipe.params().items())
    return _PLACE.sub(lambda _: f"RECIPE = {{\n{choices}}}\n", source, count=1)
