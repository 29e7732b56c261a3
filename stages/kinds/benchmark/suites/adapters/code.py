"""Items to be answered by code: HumanEval and LiveCodeBench, pure."""

from __future__ import annotations

import json
import re

from stages.kinds.benchmark.suites.adapters.fields import id_text, long_text, optional_text, text
from stages.kinds.benchmark.suites.item import Item, Record, Unfit
from stages.kinds.benchmark.suites.payload import Function, Line, Program
from stages.kinds.benchmark.suites.prompting import prompt_of


def humaneval(record: Record) -> Item:
    """Return a function of HumanEval to be completed. Raises `Unfit`."""
    prompt = text(record, "prompt")
    name = text(record, "entry_point").strip()
    if not name.isidentifier() or not re.search(rf"\bdef {re.escape(name)}\b", prompt):
        raise Unfit("its prompt does not begin the function that it names")
    reference = text(record, "canonical_solution")
    return Item(
        id=id_text(text(record, "task_id")),
        prompt=prompt_of("function", prompt=prompt.rstrip()),
        payload=Function(prompt, name, text(record, "test"), reference),
        expected=reference,
    )


def livecodebench(record: Record) -> Item:
    """Return a problem of LiveCodeBench; its private tests are read when they are needed. Raises `Unfit`."""
    id = id_text(text(record, "question_id"))
    starter = optional_text(record, "starter_code").strip()
    function = _function(optional_text(record, "metadata"))
    if bool(starter) != bool(function):
        raise Unfit("it has a starter without the name of a method, or the other way round")
    question = text(record, "question_content").strip()
    private: str | Line = record.line if record.line is not None else long_text(record, "private_test_cases")
    return Item(
        id=id,
        prompt=(
            prompt_of("program_method", question=question, starter=starter)
            if function
            else prompt_of("program_stdin", question=question)
        ),
        payload=Program(id, starter, function, long_text(record, "public_test_cases"), private),
        expected="the expected output of each test",
        subject=optional_text(record, "platform"),
        difficulty=optional_text(record, "difficulty"),
        note=" ".join(
            filter(None, (optional_text(record, "question_title"), optional_text(record, "contest_date")))
        ),
    )


def _function(metadata: str) -> str:
    if not metadata:
        return ""
    try:
        told = json.loads(metadata)
    except (ValueError, RecursionError) as error:
        raise Unfit("its metadata are no JSON") from error
    name = (told.get("func_name") or "") if isinstance(told, dict) else ""
    if not isinstance(name, str) or (name and not name.isidentifier()):
        raise Unfit("its metadata name no method")
    return name
