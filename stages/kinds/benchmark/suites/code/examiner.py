"""Runs the tests of a function: on a reference to learn their calls, then on the answers of a solution.

A stand-alone script, copied into a job's folder beside `values.py` and `job.json`. No line of a solution is
in its process: what a solution returned comes as plain values, and what it did to its arguments stays where
it was.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SEED = 20_210_707  # of tests that draw their questions
CALLS_MAX = 20_000


class Unanswered(BaseException):
    """The tests ask what the solution was not asked yet."""


class Candidate:
    """Stands for the function in its tests, and writes down what it is asked."""

    def __init__(
        self, values: Any, reference: Callable[..., Any] | None, answered: list[dict[str, Any]]
    ) -> None:
        self.values = values
        self.reference = reference
        self.answered = answered
        self.calls: list[dict[str, Any]] = []
        self.is_inside = False
        self.is_unanswered = False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.is_inside and self.reference is not None:  # it calls itself
            return self.reference(*arguments, **named)
        encode = self.values.encode
        call = {
            "arguments": [encode(each) for each in arguments],
            "named": {name: encode(each) for name, each in named.items()},
        }
        self.calls.append(call)
        if len(self.calls) > CALLS_MAX:
            raise Unanswered
        return self.replayed(call) if self.reference is None else self.asked(arguments, named)

    def asked(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return what the reference answers; chance goes on as if nobody had drawn meanwhile."""
        assert self.reference is not None
        state = random.getstate()
        self.is_inside = True
        try:
            return self.reference(*arguments, **named)
        finally:
            self.is_inside = False
            random.setstate(state)

    def replayed(self, call: dict[str, Any]) -> Any:
        """Return what the solution answered when it was asked the same at this place."""
        place = len(self.calls) - 1
        if self.is_unanswered or place >= len(self.answered) or self.answered[place]["call"] != call:
            self.is_unanswered = True
            raise Unanswered
        answer = self.answered[place]["answer"]
        if "raised" in answer:
            kind = getattr(builtins, answer["raised"], RuntimeError)
            raise (
                kind(answer["words"])
                if isinstance(kind, type) and issubclass(kind, Exception)
                else RuntimeError
            )
        return self.values.decode(answer["value"])


def main() -> None:
    """Run the tests, and report what they asked and what they found."""
    sys.path.insert(0, str(HERE))
    values = __import__("values")
    job = json.loads((HERE / "job.json").read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "tests"}
    solution = compile(job["prompt"] + job["reference"] + "\n", "reference", "exec", dont_inherit=True)
    exec(solution, names)  # noqa: S102 - of the data set, and held by the sandbox
    reference = names[job["name"]] if job["answered"] is None else None
    exec(compile(job["tests"], "tests", "exec", dont_inherit=True), names)  # noqa: S102 - the same
    candidate = Candidate(values, reference, job["answered"] or [])
    names[job["name"]] = candidate
    random.seed(SEED)
    how, why = "passed", ""
    try:
        names["check"](candidate)
    except Unanswered:
        how = "unanswered"
    except Exception as error:  # noqa: BLE001 - whatever the tests raise, they did not pass
        how, why = "failed", f"{type(error).__name__}: {error}"[:500]
    if candidate.is_unanswered:
        how = "unanswered"
    text = json.dumps({"how": how, "why": why, "calls": candidate.calls})
    (HERE / "report.json.part").write_text(text, encoding="utf-8")
    os.replace(HERE / "report.json.part", HERE / "report.json")


if __name__ == "__main__":
    main()
