"""Scores answers by a user's regular expression, in a process of its own.

Law: a pattern may take for ever, and holds its whole process while it does. So it is tried in one that knows
nothing, and is ended in time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

from stages.kinds.benchmark.suites.item import Item, Score, Scoring
from stages.kinds.benchmark.suites.parsing.thought import without_thought
from stages.kinds.benchmark.suites.payload import Wanted
from stages.kinds.benchmark.suites.scorers.plain import NO_ANSWER

PATTERN_S: Final = 10.0
SHOWN_CHARS: Final = 200
_PROGRAM: Final = """
import json, re, sys
patterns, text = json.load(sys.stdin)
found = next((match[0] for each in patterns if (match := re.search(each, text))), None)
json.dump(found, sys.stdout)
"""


def regex(item: Item, answer: str, scoring: Scoring) -> Score:
    """Score whether one of the patterns is found in an answer."""
    assert isinstance(item.payload, Wanted)
    said = without_thought(answer)
    if not said:
        return Score(outcome="unparsed", why=NO_ANSWER)
    try:
        with scoring.slots:
            ended = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _PROGRAM],
                input=json.dumps([item.payload.texts, said]).encode(),
                capture_output=True,
                timeout=PATTERN_S,
                env={},
                check=True,
            )
    except subprocess.TimeoutExpired:
        return Score(outcome="error", why=f"the pattern took more than {PATTERN_S:g} s on this answer")
    except (subprocess.CalledProcessError, OSError) as error:
        return Score(outcome="error", why=f"the pattern could not be tried: {type(error).__name__}")
    found = json.loads(ended.stdout)
    if found is None:
        return Score(outcome="wrong", parsed=said[:SHOWN_CHARS], why="the pattern is not found in it")
    return Score(outcome="right", value=1.0, parsed=str(found)[:SHOWN_CHARS])
