"""Holds the words that a sentence of a paper's author may have, and how each result is called; pure.

Law: each form of a sentence has a list of its words, and each result a form of words around it. What is in no list
cannot be said, so no list of forbidden words is needed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final, Literal

About = Literal["test", "validation", "failures"]

KEYS_MAX: Final = 1_024  # whose forms are kept; a run has some hundred


def listed(words: str) -> frozenset[str]:
    """Return words that stand between spaces."""
    return frozenset(words.split())


# What each form of a sentence may say, beside the names of this run and the comparing words.
OF_RESULTS: Final = listed("""
a an and are average baseline became become becomes by change changed changes data difference for goes has in
intervention is its lies mean of on program reached test the validation was were when which with
""")
OF_ABLATIONS: Final = listed("ablation ablations condition under")
OF_POINTERS: Final = listed("""
a ablation ablations and baseline chosen conclusion condition conditions curves data describes difference differences
each for in intervention interval introduction its limitations mean measured node nodes of on program programs related
results seed seeds stage stages test the tried unit units validation was were what with work
""")
OF_SOURCES: Final = listed("""
a about addresses also among an and are as at by considered considers described describes discussed discusses earlier
examined examines for in includes is it its of on one paper publication question related report reported reports studied
studies study subject that the to topic was were with work works
""")
OF_QUESTIONS: Final = listed("a an become becomes data for in intervention is of on test the with")
# A condition is the program's author's own text: it is named only where it is one of these choices.
OF_CONDITIONS: Final = listed("""
and batch decay depth dropout else epochs examples hidden label layers learning nothing of off on optimiser rate
residual seed size smoothing steps the training units varied weight width
""")
UP: Final = listed("""
higher greater larger increases increased increase rises rose rise grows grew gains gained gain raises raised
""")
DOWN: Final = listed("""
lower smaller decreases decreased decrease falls fell fall lowers lowered reduces reduced reduction drops dropped drop
""")
GOOD: Final = listed("better improves improved improve improvement outperforms helps")
BAD: Final = listed("worse worsens worsened degrades degraded hurts")
ASSERTING: Final = UP | DOWN | GOOD | BAD
FAILING: Final = listed("failed buggy")
NEGATING: Final = listed("""
barely cannot except fail failed fails few hardly if least less little longer neither never no none nor not only rarely
seldom t unless without
""")

# Every number that a sentence may refer to: what it is about, its key, and how it is said; KEY stands for itself.
_SAID: Final[Sequence[tuple[About, str, str]]] = (
    ("test", r"effect\.mean|mean\.[a-z_]+\.(?:baseline|intervention)", "KEY"),
    ("test", r"confidence", "KEY(?= confidence interval)"),
    (
        "test", r"effect\.(?:low|high)",
        r"confidence interval (?:of the (?:mean )?(?:change|difference) )?(?:goes |is |lies )?"
        r"\{effect\.low\} \{effect\.high\}",
    ),
    ("test", r"effect\.p_value", "p (?:value )?(?:is |was |of )?KEY"),
    ("test", r"effect\.in_test_rows", r"KEY (?:of (?:the )?\{units\.test_rows\} )?test rows"),
    ("test", r"units\.test_rows", "of (?:the )?KEY test rows"),
    ("test", r"units\.measured", r"(?:over|in) KEY (?:of (?:the )?\{units\.registered\} (?:registered )?)?units"),
    (
        "failures", r"units\.failed\.(?:baseline|intervention)",
        r"KEY(?: (?:of (?:the )?\{units\.registered\} )?(?:registered )?units)?",
    ),
    ("failures", r"units\.registered", "of (?:the )?KEY (?:registered )?units"),
    ("failures", r"(?:nodes|stage_[1-4])\.buggy", "(?:of which )?KEY(?: of them| programs| nodes)?(?: were| was)? (?:buggy|failed)"),
    (
        "failures", r"nodes\.tried|stage_[1-4]\.nodes",
        "(?:of|(?:the search )?tried) KEY (?:programs|nodes)|KEY (?:programs|nodes) were tried",
    ),
    ("validation", r"(?:baseline|intervention)\.validation|stage_[1-4]\.best", "KEY"),
    ("validation", r"ablation_\d+\.(?:without|with|difference)", "KEY"),
)  # fmt: skip
NAMES: Final = listed("subject metric measure selection data")  # judged as what they stand for
STAGES: Final = {
    "stage_1.name": "the first stage",
    "stage_2.name": "the second stage",
    "stage_3.name": "the third stage",
    "stage_4.name": "the fourth stage",
}


@functools.lru_cache(maxsize=KEYS_MAX)
def said(key: str) -> tuple[About, re.Pattern[str]] | None:
    """Return what a number is about, and how it is called; None: no sentence may refer to it."""
    for about, pattern, form in _SAID:
        if re.fullmatch(pattern, key):
            return about, re.compile(form.replace("KEY", re.escape(f"{{{key}}}")))
    return None


def is_referable(key: str) -> bool:
    """Return whether a sentence may refer to a number or name; the others are in the tables."""
    is_condition = re.fullmatch(r"ablation_\d+\.condition", key) is not None
    return is_condition or key in {"claim", "idea", *NAMES, *STAGES} or said(key) is not None
