"""Programs out of answers: which block counts, and what is no program."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.kinds.benchmark.suites.catalogue import SUITES
from stages.kinds.benchmark.suites.code.functions import completed
from stages.kinds.benchmark.suites.data.loading import load
from stages.kinds.benchmark.suites.data.sources import DataSources
from stages.kinds.benchmark.suites.parsing.code_block import program_in
from stages.kinds.benchmark.suites.payload import Function

CODE = "def f(x):\n    return x"
PROMPT = 'import math\n\n\ndef f(x: int) -> int:\n    """ Return x. """\n'
WANTED = Function(PROMPT, "f", "", "")


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{CODE}\n```",
        f"Here:\n\n```py\n{CODE}\n```\nIt works.",
        f"```\n{CODE}\n```",
        f"~~~python\n{CODE}\n~~~",
        f"```python\n{CODE}",
        f"  ```python\n  {CODE.replace(chr(10), chr(10) + '  ')}\n  ```",
        f"<think>```python\ndef f(x): pass\n```</think>\n```python\n{CODE}\n```",
        f"```python\n{CODE}\n```\nTry it:\n```python\nprint(f(1))\n```",
        f"```bash\npip install x\n```\n```python\n{CODE}\n```",
        f"```python\ndef f(x): return 1\n```\nNo:\n```python\n{CODE}\n```",
        CODE,
        f"{CODE}\n\nThis returns its argument.",
    ],
)
def test_the_block_that_defines_the_function_counts(answer: str) -> None:
    found = program_in(answer, "f")
    assert found is not None
    assert found.strip() == CODE


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot do that.",
        "<think>```python\ndef f(x): pass\n```",
        "```bash\nls\n```",
        "```json\n{}\n```",
    ],
)
def test_what_holds_no_program_is_none(answer: str) -> None:
    assert program_in(answer, "f") is None
    assert completed(WANTED, answer) is None


def test_a_whole_function_stands_behind_the_prompt() -> None:
    assert completed(WANTED, f"```python\n{CODE}\n```") == (PROMPT, f"{CODE}\n")


@pytest.mark.parametrize(
    "answer",
    [
        "    return x\n",
        "return x",
        "```python\n    return x\n```",
        "```python\nreturn x\n```",
        "    return x\n\n\nprint(f(1))",
        "if x:\n        return x\n    return 0",
        "y = x\n    return y",
        "if x == 1: return 1\n    return x",
        "if x:\n      return x\n    return 0",
    ],
)
def test_a_body_goes_on_with_the_prompt(answer: str) -> None:
    sources = completed(WANTED, answer)
    assert sources is not None
    (source,) = sources
    names: dict[str, object] = {}
    exec(source, names)  # noqa: S102 - it is the test's own
    function = names["f"]
    assert callable(function)
    assert function(7) == 7


def test_every_real_function_is_understood_in_each_form_of_answer(tmp_path: Path) -> None:
    for item in load(SUITES["humaneval"], DataSources(folders=(), cache=tmp_path, hub="")):
        wanted = item.payload
        assert isinstance(wanted, Function)
        whole = wanted.prompt + wanted.reference
        for answer in (
            wanted.reference,
            wanted.reference.strip(),
            whole,
            f"{whole}\n\nIt works.",
            f"{wanted.reference}\n\ndef other(x):\n    return x\n",
            f"Sure:\n```python\n{whole}```\nDone.",
            f"```python\n{wanted.reference}```",
        ):
            sources = completed(wanted, answer)
            assert sources is not None, item.id
            for source in sources:
                compile(source, item.id, "exec")


def test_a_program_without_a_name_is_the_last_block() -> None:
    assert program_in("```python\nprint(1)\n```\nBetter:\n```python\nprint(2)\n```") == "print(2)\n"
    assert program_in("n = int(input())\nprint(n)\n\nIt prints the number.") == "n = int(input())\nprint(n)"
    assert program_in("It cannot be done.") is None
