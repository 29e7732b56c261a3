"""Makes the prompts of items out of text files, pure but for reading these."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template


def prompt_of(name: str, **parts: str) -> str:
    """Return the prompt of a file with its parts filled in."""
    return _template(name).substitute(parts).strip()


@cache
def _template(name: str) -> Template:
    return Template(
        files("stages.kinds.benchmark.suites").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    )
