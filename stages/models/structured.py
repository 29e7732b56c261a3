"""Structured answers of a model: JSON of a declared shape, or one program, out of free text.

Law: the result is valid or a `ModelError`, after a bounded number of requests. Nothing in an answer is
trusted, and no answer raises anything else.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from stages.models.model import Answer, Model, ModelError, Question, Trouble

ANSWER_CHARS_MAX: Final = 400_000  # of an answer that is looked at; the rest is not
CODE_CHARS_MAX: Final = 100_000
DEPTH_MAX: Final = 32
CANDIDATES_MAX: Final = 20
STARTS_MAX: Final = 200  # brackets in prose that are tried as the beginning of JSON
QUOTED_CHARS_MAX: Final = 6_000  # of a wrong answer, in the question that asks for a better one
PROBLEM_CHARS_MAX: Final = 1_000
REPAIRS_MAX: Final = 2
TOKENS_MAX: Final = 32_768  # what a cut-off answer's next try may grow to

FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+-]*)[^`]*")
OPENS: Final = re.compile(r"[\[{]")
JSON: Final = frozenset({"", "json", "jsonc", "json5"})
PYTHON: Final = frozenset({"", "py", "python", "python3"})
THOUGHT_ENDS: Final = "</think>"  # some servers leave a model's thoughts in its answer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of an answer; not `is_closed` where the answer ends inside it."""

    language: str
    text: str
    is_closed: bool


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why an answer cannot be used, in words for the model."""

    problem: str


def ask_for(model: Model, question: Question, kind: type[T], repairs_max: int = REPAIRS_MAX) -> T:
    """Ask for JSON of the shape of `kind`, a msgspec Struct.

    Raises `ModelError`: `malformed` or `cut_off` where no answer had the shape.
    """
    schema = json.dumps(msgspec.json.schema(kind), separators=(",", ":"))
    form = (
        "Answer with one JSON value in one ```json block and nothing after it. "
        f"It has to be valid for this JSON schema:\n{schema}"
    )
    return _ask(model, question, form, lambda text: find_json(text, kind), repairs_max)


def ask_for_code(
    model: Model,
    question: Question,
    check: Callable[[str], str | None] = lambda _: None,
    repairs_max: int = REPAIRS_MAX,
) -> str:
    """Ask for one Python program; `check` returns what is wrong with one that can be parsed.

    Raises `ModelError`: `malformed` or `cut_off` where no answer held such a program.
    """
    form = "Answer with one whole Python program in one ```python block. Leave nothing out."
    return _ask(model, question, form, lambda text: find_code(text, check), repairs_max)


def _ask(
    model: Model, question: Question, form: str, find: Callable[[str], T | Wrong], repairs_max: int
) -> T:
    prompt = replace(question, text=f"{question.text}\n\n{form}")
    answer, found = _answer(model, prompt, find)
    for _ in range(repairs_max):
        if not isinstance(found, Wrong):
            return found
        prompt = _again(question, form, answer, found, prompt.tokens_max)
        answer, found = _answer(model, prompt, find)
    if not isinstance(found, Wrong):
        return found
    trouble: Trouble = "cut_off" if answer.is_cut_off else "malformed"
    raise ModelError(
        trouble, f"{repairs_max + 1} answers for {question.purpose!r} are wrong; the last: {found.problem}"
    )


def _answer(model: Model, question: Question, find: Callable[[str], T | Wrong]) -> tuple[Answer, T | Wrong]:
    answer = model.ask(question)
    return answer, find(answer.text[:ANSWER_CHARS_MAX])


def _again(question: Question, form: str, answer: Answer, wrong: Wrong, tokens: int) -> Question:
    """Return the question with what was wrong about the answer; more room where it was cut off."""
    problem = _sound_text(wrong.problem[:PROBLEM_CHARS_MAX])
    if answer.is_cut_off:
        tokens = max(tokens, min(TOKENS_MAX, 2 * tokens))
        problem = f"it was cut off, it is too long. {problem}"
    text = (
        f"{question.text}\n\nYour last answer cannot be used: {problem}\n"
        f"It was:\n<answer>\n{_shortened(answer.text)}\n</answer>\n\n{form}"
    )
    return replace(question, text=text, tokens_max=tokens)


def _shortened(text: str) -> str:
    half = QUOTED_CHARS_MAX // 2
    return text if len(text) <= QUOTED_CHARS_MAX else f"{text[:half]}\n[...]\n{text[-half:]}"


def find_json(text: str, kind: type[T]) -> T | Wrong:
    """Return what in `text` has the shape of `kind`: the last such block, else the largest bare value."""
    first: Wrong | None = None
    for value in _json_values(_said(text)):
        found = value if isinstance(value, Wrong) else _shaped(value, kind)
        if not isinstance(found, Wrong):
            return found
        first = first or found
    return first or Wrong("it holds no JSON")


def _json_values(text: str) -> Iterator[Any]:
    blocks = [block.text for block in blocks_of(text) if block.language in JSON]
    for block in blocks[: -CANDIDATES_MAX - 1 : -1]:
        yield _decoded(block)
    yield from _bare(text)


def _decoded(text: str) -> Any:
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return _wrong_json(error)


def _wrong_json(error: Exception) -> Wrong:
    return Wrong(f"its JSON is wrong: {error}")


def _bare(text: str) -> list[Any]:
    """Return the objects and lists that stand in a text, and what is nearly one, the longest first."""
    found: list[tuple[int, Any]] = []
    at = 0
    for _ in range(STARTS_MAX):
        begin = OPENS.search(text, at)
        if begin is None:
            break
        at = begin.start() + 1
        try:
            value, end = DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError) as error:  # as long as it could be read, where that is known
            found.append((getattr(error, "pos", len(text)) - begin.start(), _wrong_json(error)))
            continue
        found.append((end - begin.start(), value))
        at = end
    found.sort(key=lambda each: each[0], reverse=True)
    return [value for _, value in found[:CANDIDATES_MAX]]


def _shaped(value: Any, kind: type[T]) -> T | Wrong:
    try:
        return msgspec.convert(_sound(value, DEPTH_MAX), kind, strict=False)
    except (ValueError, OverflowError) as error:
        return _wrong_json(error)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


DECODER: Final = json.JSONDecoder(strict=False, parse_constant=_no_constant)


def _sound(value: Any, depth: int) -> Any:
    """Return a value whose texts every later step can carry. Raises `ValueError` for one nested too deep."""
    if depth < 0:
        raise ValueError(f"it is nested more than {DEPTH_MAX} deep")
    match value:
        case str():
            return _sound_text(value)
        case list():
            return [_sound(each, depth - 1) for each in value]
        case dict():
            return {_sound_text(key): _sound(each, depth - 1) for key, each in value.items()}
        case _:
            return value


def _sound_text(text: str) -> str:
    """Return text without lone surrogates, which no UTF-8 can carry, and without NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def find_code(text: str, check: Callable[[str], str | None] = lambda _: None) -> str | Wrong:
    """Return the longest Python block of `text`, if it can be parsed and `check` finds nothing."""
    reply = _said(text)
    blocks = [block for block in blocks_of(reply) if block.language in PYTHON and block.text.strip()]
    if not blocks:
        return _unfenced(reply, check)
    block = max(blocks, key=lambda block: (block.language != "", len(block.text)))
    if not block.is_closed:
        return Wrong("its code block does not end")
    return _program(block.text, check)


def _unfenced(text: str, check: Callable[[str], str | None]) -> str | Wrong:
    """Return a text that is a program as a whole; a word of prose can be parsed too, and is none."""
    missing = Wrong("it holds no ```python block")
    program = _program(text, lambda _: None)
    if isinstance(program, Wrong):
        return missing
    does = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign)
    if not any(isinstance(statement, does) for statement in ast.parse(program).body):
        return missing
    return _program(text, check)


def _program(code: str, check: Callable[[str], str | None]) -> str | Wrong:
    if len(code) > CODE_CHARS_MAX:
        return Wrong(f"its code has {len(code)} characters, and {CODE_CHARS_MAX} is the limit")
    code = _sound_text(code.replace("\0", ""))
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        return Wrong(f"its code cannot be parsed: line {error.lineno}: {error.msg}")
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return Wrong(f"its code cannot be parsed: {type(error).__name__}: {error}")
    if not tree.body:
        return Wrong("its code is empty")
    problem = check(code)
    return code if problem is None else Wrong(problem)


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a text; a fence ends with a line of at least as many of its marks."""
    blocks: list[Block] = []
    fence, language, lines = "", "", list[str]()
    for line in text.split("\n"):
        found = FENCE.fullmatch(line.rstrip("\r"))
        if not fence:
            if found:
                fence, language, lines = found.group(1), found.group(2).lower(), []
        elif found and found.group(1).startswith(fence) and not found.group(2):
            blocks.append(Block(language, "\n".join([*lines, ""]), is_closed=True))
            fence = ""
        else:
            lines.append(line)
    if fence:
        blocks.append(Block(language, "\n".join([*lines, ""]), is_closed=False))
    return blocks


def _said(text: str) -> str:
    """Return an answer without the thoughts before it."""
    before, mark, after = text.rpartition(THOUGHT_ENDS)
    return after if mark and "<think>" in before[:200] else text
