"""A model that does its work: good answers to everything that the researcher asks, for `ModelServer`.

It knows what is asked by the words of the question alone, as a real model would, and its programs
train a linear classifier in milliseconds: the intervention is momentum, which lowers the NLL of so
short a training for certain.

Run by hand, `python -m tests.integration.programs.scholar` serves it until it is interrupted.
"""

from __future__ import annotations

import ast
import json
import re
import threading
from collections.abc import Mapping
from typing import Any, Final, Literal

from stages.kinds.experiment.record.prose import SECTIONS
from tests.integration.programs.model_server import Asked, ModelServer, Reply

IDEA: Final = "Momentum lowers the negative log-likelihood of a short training on digits"

Step = Literal[
    "choose", "draft", "debug", "tune", "apply", "refine", "vary", "write", "section", "review",
]  # fmt: skip
PROGRAMS: Final[Mapping[str, Step]] = {
    "Your step: a first implementation": "draft",
    "Your step: repair it": "debug",
    "Your step: a better baseline": "tune",
    "Your step: put the intervention into": "apply",
    "Your step: another strength": "refine",
    "Your step, an ablation: keep the intervention": "vary",
}
CONDITIONS: Final = ("half the epochs", "a smaller learning rate", "fewer rows", "a larger learning rate")

PROGRAM: Final = """import math
import time

import numpy as np

PLAN = {plan!r}
PARAMS = {params!r}
{condition}

def run(task):
    chance = np.random.default_rng(task.seed)
    features = np.c_[task.train.features, np.ones(len(task.train))]
    watched = np.c_[task.watch.features, np.ones(len(task.watch))]
    wanted = np.eye(task.outputs)[task.train.targets]
    weights = 0.01 * chance.standard_normal((features.shape[1], task.outputs))
    speed = np.zeros_like(weights)
    momentum = PARAMS.get("momentum", 0.0) if task.intervention else 0.0
    begun = time.monotonic()
    for epoch in range(int(task.epochs * PARAMS["length"])):
        said = probabilities(features @ weights)
        slope = features.T @ (said - wanted) / len(wanted)
        speed = momentum * speed - PARAMS["lr"] * slope
        weights = weights + speed
        watch_loss = loss(probabilities(watched @ weights), task.watch.targets)
        task.point(epoch + 1, loss(said, task.train.targets), watch_loss)
    task.trained(time.monotonic() - begun)
    task.size(weights.size)
    return probabilities(np.c_[task.judge.features, np.ones(len(task.judge))] @ weights)


def probabilities(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def loss(said, targets):
    return float(-np.log(said[np.arange(len(targets)), targets] + 1e-12).mean())
"""
BASELINE: Final[Mapping[str, Any]] = {"lr": 0.05, "length": 1.0}


def step_of(asked: Asked) -> Step:
    """Return what is asked for."""
    if asked.system.startswith("You read a research idea"):
        return "choose"
    if asked.system.startswith("You review a paper"):
        return "review"
    if asked.system.startswith("You write the words"):
        return "section" if "Now only the section" in asked.text else "write"
    return next(step for words, step in PROGRAMS.items() if words in asked.text)


def good(asked: Asked) -> Reply:
    """Answer as a model does that has understood what it was told."""
    match step_of(asked):
        case "choose":
            return said(choice())
        case "write":
            return said(words(conclusion(asked)))
        case "section":
            (name,) = re.findall(r"Now only the section (\w+)", asked.text)
            return said({"paragraphs": words(conclusion(asked))["sections"][name]})
        case "review":
            return said(review())
        case step:
            return program_for(step, asked)


def said(value: Any) -> Reply:
    return Reply(text=f"Gladly.\n```json\n{json.dumps(value)}\n```")


def program(plan: str, params: Mapping[str, Any], condition: str = "", extra: str = "") -> str:
    """Return a program that works; `extra` stands at its top."""
    line = f"CONDITION = {condition!r}\n" if condition else ""
    return extra + PROGRAM.format(plan=plan, params=dict(params), condition=line)


def fenced(code: str) -> Reply:
    return Reply(text=f"Here it is.\n```python\n{code}```\nGood luck.")


def program_for(step: Step, asked: Asked, extra: str = "") -> Reply:
    """Return the next program; each one differs from all before, by the number of the question."""
    shown = params_shown(asked)
    fresh = round(0.05 + asked.number / 1000, 4)
    with_momentum = {**shown, "momentum": 0.9}
    without = {name: value for name, value in shown.items() if name != "momentum"}
    condition = ""
    match step:
        case "draft":
            plan, params = (
                "A linear classifier, trained by plain gradient descent.",
                {**BASELINE, "lr": fresh},
            )
        case "debug":
            plan, params = "The training had stopped; mended.", {**shown, "lr": fresh}
        case "tune":
            plan, params = "Another learning rate.", {**without, "lr": fresh}
        case "apply":
            strength = 0.9 if "usual strength" in asked.text else round(0.8 + asked.number / 1000, 4)
            plan, params = "Momentum on top of the baseline.", {**shown, "momentum": strength}
        case "refine":
            plan, params = (
                "A little less momentum.",
                {**shown, "momentum": round(0.8 + asked.number / 1000, 4)},
            )
        case _:
            condition = next(
                each for each in CONDITIONS if each not in asked.text.rpartition("varied already")[2]
            )
            plan, params = f"Momentum under another condition: {condition}.", {**with_momentum, "length": 0.5}
    return fenced(program(plan, params, condition, extra))


def params_shown(asked: Asked) -> dict[str, Any]:
    """Return the choices of the program that the question shows; the baseline's where it shows none."""
    shown = re.search(r"<program>\n(.*?)\n</program>", asked.text, re.DOTALL)
    found = re.search(r"^PARAMS = (\{.*\})$", shown[1], re.MULTILINE) if shown else None
    return {**BASELINE, **ast.literal_eval(found[1])} if found else dict(BASELINE)


def conclusion(asked: Asked) -> str:
    return asked.text.partition("had not seen: ")[2].partition(";")[0]


def choice(**fields: Any) -> dict[str, Any]:
    known = {
        "is_testable": True, "reading": "Momentum is added to plain gradient descent.", "subject": "momentum",
        "metric": "nll", "direction": "decrease", "data_set": "digits",
        "train_examples": None, "left_out": [],
        "bound": [
            {"field": "intervention", "words": "Momentum"}, {"field": "direction", "words": "lowers"},
            {"field": "metric", "words": "negative log-likelihood of a short training"},
            {"field": "data", "words": "on digits"},
        ],
    }  # fmt: skip
    return known | fields


def words(verdict: str) -> dict[str, Any]:
    sections = {name: [f"This section is about {name.replace('_', ' ')}."] for name in SECTIONS}
    sections |= {
        "introduction": [
            "This paper describes what was measured. A large user study with doctors confirms it."
        ],
        "results": ["The mean difference over the units is {effect.mean}."],
        "conclusion": [f"The claim is {verdict}, with a difference of {{effect.mean}} on average."],
    }
    return {"sections": sections, "cited": []}


def review(**fields: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "summary": "A small study, measured well.", "strengths": ["every number is traced"],
        "weaknesses": ["one data set"], "originality": 2, "quality": 3, "clarity": 3, "significance": 2,
        "soundness": 3, "presentation": 3, "contribution": 2, "overall": 6,
        "confidence": 4, "decision": "accept",
    }  # fmt: skip
    return known | fields


def main() -> None:
    with ModelServer(good) as server:
        print("PODFLEET_PRIVATE_HOSTS=127.0.0.1", end=" ")
        print(f"OPENAI_BASE_URL={server.openai_url} OPENAI_API_KEY=sk-any OPENAI_MODEL=scholar-1", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
