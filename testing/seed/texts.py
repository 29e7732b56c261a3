"""What people and pipelines write: usual, and in a few places hostile to a page that shows it."""

from __future__ import annotations

import random
from typing import Final

METHODS: Final = (
    "weight decay", "label smoothing", "a larger batch", "cosine warm restarts", "mixup", "layer norm",
    "stochastic depth", "gradient clipping", "a wider bottleneck", "early stopping", "dropout", "SAM",
    "low-rank adapters", "curriculum order", "sparse attention", "quantised activations",
)  # fmt: skip
GOALS: Final = (
    "calibration", "test accuracy", "robustness to noise", "sample efficiency", "time to converge",
    "memory at the peak", "out-of-distribution recall", "stability over seeds",
)  # fmt: skip
DATA: Final = ("digits", "wine", "breast cancer", "covertype", "CIFAR-10", "tiny text", "house prices")
# What the reader of claims binds, for what shall be measured.
CLAIMED: Final = ("Weight decay", "Label smoothing", "Mix-up", "Layer norm", "Early stopping", "Dropout")
MEASURED: Final = ("calibration", "the test accuracy", "the Brier score", "the log-likelihood", "the error")
KNOWN: Final = ("digits", "wine", "breast cancer", "iris")
TEAMS: Final = ("vision", "language", "tabular", "theory", "platform")
PEOPLE: Final = ("amal", "bo", "chidi", "dana", "emre", "fatou", "grace", "hiro", "ines", "jun")
REGIONS: Final = ("eu-de", "eu-fr", "us-east", "us-west")
LINES: Final = (
    "epoch {n}: loss {x:.4f}, accuracy {y:.3f}", "checkpoint {n} written", "learning rate is {x:.2e} now",
    "batch {n} of 400", "validation loss {x:.4f} (best {y:.4f})", "reading shard {n}",
    "gradient norm {x:.3f}", "evaluated {n} of 64 samples",
)  # fmt: skip
HOSTILE: Final = (
    "<script>alert(1)</script> & <b>bold</b> claims",
    '"><img src=x onerror=alert(document.domain)>',
    "\u202egnidaer morf thgir\u202c to left \u2067\u05e2\u05d1\u05e8\u05d9\u05ea\u2069 and back",
    "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft" * 2,
    "{{ 7 * 7 }} ${7*7} %s %n '; DROP TABLE runs; --",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645: does \u0627\u0644\u0627\u0646\u062a\u0628\u0627\u0647 help?",  # noqa: E501
    "z\u0351\u036b\u0343\u036a\u0302a\u036b\u033d\u034fl\u0335g\u0337o\u0327 and \U0001f9ea\U0001f3f3\ufe0f",
    "tabs\tand\nlines\r\nin a title",
)  # fmt: skip
HOSTILE_EVERY: Final = 97  # a prime: it meets every status and kind


def title(number: int, rng: random.Random) -> str:
    """Return what a run or hypothesis is called."""
    if number % HOSTILE_EVERY == 0:
        return HOSTILE[number // HOSTILE_EVERY % len(HOSTILE)]
    return f"Does {rng.choice(METHODS)} improve {rng.choice(GOALS)} on {rng.choice(DATA)}? (#{number:07d})"


def idea(number: int, rng: random.Random) -> dict[str, object]:
    """Return an idea in its seven fields."""
    method, goal, data = rng.choice(METHODS), rng.choice(GOALS), rng.choice(DATA)
    claimed, measured, known = (each[number % len(each)] for each in (CLAIMED, MEASURED, KNOWN))
    return {
        "Name": f"idea_{number:07d}",
        "Title": title(number, rng),
        "Short Hypothesis": f"{claimed} improves {measured} on {known}.",
        "Related Work": f"Earlier runs looked at {rng.choice(METHODS)} only.",
        "Abstract": f"We hold {method} against a baseline of the same budget on {data} and measure {goal}.",
        "Experiments": [f"baseline on {data}", f"{method} at three strengths", "five fresh seeds of both"],
        "Risk Factors and Limitations": ["small data", "one architecture"],
    }


def line(number: int, rng: random.Random) -> str:
    """Return a line of a log."""
    if number % (HOSTILE_EVERY * 5) == 0:
        return HOSTILE[number % len(HOSTILE)]
    return rng.choice(LINES).format(n=number, x=rng.random(), y=rng.random())
