"""Any program that speaks the API of OpenAI, by a template of its command, pure.

Law: a template is words with fields, no program of a shell: nothing in it is executed but its first word.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from string import Formatter
from typing import Final

from events.models.engine import Engine
from events.runtime.errors import PipelineError

FIELDS: Final = ("python", "model", "port", "alias", "name")
TEMPLATE_CHARS: Final = 2_000

# Its command is in the run: `commanded` makes an engine of it.
COMMAND: Final = Engine(
    name="command",
    title="any program with the API of OpenAI, by a template of its command",
    needs="",
    needs_is="program",
    install="put the program on the PATH of the worker",
    command=(),
    option=("--{name}", "{value}"),
    weights="hub",
    called="model",
    proof="listener",
    takes_ignore_eos=False,
    health="",
    is_open=True,
)


def commanded(template: str) -> Engine:
    """Return the engine of a template. Raises `PipelineError` with the code CONFIG and every problem.

    Parameters follow its words, as `--NAME VALUE`; true is `--NAME` alone, false is nothing. With `{alias}`
    the program lists that name at `/v1/models`, and takes `ignore_eos` if it has more than OpenAI's fields.
    """
    try:
        words = shlex.split(template[: TEMPLATE_CHARS + 1])
        problems = list(_problems(template, words))
    except ValueError as error:
        words, problems = [], [f"its quotes or braces do not close: {error}"]
    if problems:
        raise PipelineError("CONFIG", f"command: {'; '.join(problems)}")
    used = {field for word in words for field in _fields(word)}
    is_listed = "alias" in used
    return replace(
        COMMAND,
        command=tuple(words),
        needs="" if words[0] == "{python}" else words[0],
        proof="alias" if is_listed else "listener",
        called="name" if "name" in used else "alias" if is_listed else "model",
    )


def _problems(template: str, words: Sequence[str]) -> Iterator[str]:
    if len(template) > TEMPLATE_CHARS:
        yield f"the template has more than {TEMPLATE_CHARS:,} characters"
    if not words:
        yield "a template of the command is needed, such as 'my-server --model {model} --port {port}'"
        return
    used = [field for word in words for field in _fields(word)]
    strange = sorted({field for field in used if field not in FIELDS})
    if strange:
        known = ", ".join(f"{{{each}}}" for each in FIELDS)
        yield f"there is no field {', '.join(strange)!s}; there are {known}; braces of its own are doubled"
    if "port" not in used:
        yield "the template has no {port}: who else would listen there"
    if _fields(words[0]) not in ([], ["python"]) or (_fields(words[0]) and words[0] != "{python}"):
        yield "its first word is the program, and has no field but {python}"


def _fields(word: str) -> list[str]:
    """Return the fields of a word; one with more than a name is named whole, and so is none that is known."""
    return [
        name + (f":{form}" if form else "") + (f"!{turned}" if turned else "")
        for _, name, form, turned in Formatter().parse(word)
        if name is not None
    ]
