"""Builds records of runs that were never run, and the events of such runs; for tests."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any, Final

from events.kinds.declaring.fact import Fact
from events.kinds.experiment import Arm, NodeCompleted, NodeCreated, NodeSelectedBest
from events.kinds.idea import Idea
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.effect import Effect, better
from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.record.numbers import facts_to_say
from stages.kinds.experiment.record.record import (
    Curve,
    Finalist,
    Point,
    Record,
    Setting,
    StageRecord,
    Verdicts,
)
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.validation import Pair, Registration, judge
from stages.kinds.experiment.tree import UNVARIED, Node
from stages.ports.literature import Work

HOSTILE: Final = (
    r"\input{/etc/passwd} \end{document} $x_1$ 50% #1 & ~ ^ {effect.mean} <script>alert(1)</script> \val{effect.mean}{9.99} "
    '#import "x" @cite `raw` *bold* // 中文 Ω é ß \N{ROCKET} \x00\x1b[31m ' + "W" * 300
)
CODE: Final = """import torch

PARAMS = {{"width": 64, "lr": 0.003, "optimiser": "adam", "residual": False, "dropout": 0.0}}
SWITCH = {{"dropout": {dropout}}}

def run(task):
    if task.intervention:
        PARAMS.update(SWITCH)
    return trained(task, PARAMS)
"""
PARAMS: Final[Mapping[str, Any]] = {
    "width": 64,
    "lr": 0.003,
    "optimiser": "adam",
    "residual": False,
    "dropout": 0.0,
}


def make_node(stage: str, number: int, metric: float | None, **changes: Any) -> Node:
    """Return a node; without a metric it is buggy."""
    fields: dict[str, Any] = {
        "plan": f"try width {2 ** (4 + number % 5)}, learning rate 0.00{number % 9 + 1}",
        "code": CODE.format(dropout=0.0), "params": dict(PARAMS), "metric": metric, "works": metric is not None,
        "seconds": 1.5, "error": None if metric is not None else "ValueError: the loss is not a number (epoch 3)",
        "scores": {"accuracy": metric, "nll": 0.4, "parameters": 5130.0, "training_seconds": 1.25} if metric else {},
    }  # fmt: skip
    return Node(id=f"{stage}/{number}", stage=stage, **(fields | changes))


def make_curve(node: str, epochs: int = 12) -> Curve:
    """Return a plausible learning curve, another one for each node."""
    pace = 1.0 + 0.1 * (sum(map(ord, node)) % 5)
    return Curve(node, tuple(Point(e, 2.0 / e**pace, 2.1 / e + 0.05 * pace) for e in range(1, epochs + 1)))


def make_record(
    *,
    sizes: Sequence[int] = (3, 5, 5, 7),
    effect: float = 0.01,
    units: int = 10,
    lost: int = 0,
    metric: str = "accuracy",
    curves: bool = True,
    finalists: int = 2,
    text: str = "",
    params: Mapping[str, Any] | None = None,
    works: int = 0,
    buggy_share: float = 0.2,
    seed: int = 3,
) -> Record:
    """Return the record of a run as small, large, hostile or poor as asked; `text` stands wherever people write."""
    chance = random.Random(seed)  # noqa: S311 - a made-up run, no secret
    measure = METRICS[metric]
    claim = Claim(
        subject=text or "dropout", effects=(Effect(measure, better(measure)),),
        data=SHIPPED["diabetes" if measure.tasks == {"regression"} else "digits"],
        notes=(text,) if text else ("Read from the words of the idea: 1 intervention, 1 measure.",),
    )  # fmt: skip
    stages: list[StageRecord] = []
    parent: Node | None = None
    for number, size in enumerate(sizes, start=1):
        name = f"Stage_{number}"
        nodes = _nodes(name, size, parent, chance, buggy_share)
        if text:
            nodes = [_hostile(node, text) for node in nodes]
        if params is not None:
            nodes = [replace(node, params=dict(params)) for node in nodes]
        good = [node for node in nodes if node.metric is not None]
        rivals = [parent, *good] if parent is not None and name == "Stage_2" else good
        ranked = sorted(rivals, key=lambda node: _rank(claim, node.metric))
        again = tuple(_finalist(node, chance) for node in ranked[:finalists])
        mean_of = {each.node: each.mean for each in again}
        best = min(ranked[: finalists or 1], key=lambda node: _rank(claim, mean_of.get(node.id, node.metric)))
        stages.append(
            StageRecord(
                name=name, limit=size + 2, nodes=tuple(nodes), best=best,
                reason=text or _reason(again, size), ended=text or "nothing is left to propose",
                curve=make_curve(best.id) if curves else Curve(best.id),
                curves=tuple(make_curve(node.id) for node in good[::2]) if curves else (), finalists=again,
            )
        )  # fmt: skip
        parent = best
    pairs = [_pair(place, effect, chance, lost=place < lost) for place in range(units)]
    plan = Registration(measure, superior(claim.direction), units, rows=1797, test_rows=540)
    whole = [pair for pair in pairs if pair.difference is not None]
    means = {
        "training_seconds": (1.25, 1.5),
        metric: (fmean(pair.baseline or 0.0 for pair in whole), fmean(pair.intervention or 0.0 for pair in whole)),
    } if whole else {}  # fmt: skip
    setting = Setting(
        run_id="01K00000000000000000000001", attempt=1, seed=3, preset="quick", repeats=4, epochs=20,
        researcher=text or "the built-in researcher", isolation="bubblewrap", device="cpu",
        versions={"python": "3.11.9", "torch": "2.13.0", "scikit-learn": "1.9.1"},
        split={"train": 1078, "validation": 359, "test": 360}, features=64, outputs=10,
    )  # fmt: skip
    return Record(
        Idea(short_hypothesis=text or "Dropout improves the accuracy of small networks on digits by 2 points.", title=text),
        claim, setting, tuple(stages),
        Verdicts(
            (judge(pairs, plan),), means, references={"boosted_trees": 0.93, "small_network": 0.91}
        ),
        tuple(_work(place, text) for place in range(works)),
    )  # fmt: skip


def _hostile(node: Node, text: str) -> Node:
    """Return the node with the text wherever a program's author can put one."""
    return replace(
        node, plan=text, error=text if node.buggy else None, condition=node.condition and f"{node.condition} {text}",
        params={**node.params, text[:60]: 1.5, "name": text}, code=f"{node.code}# {text}\n\\end{{verbatim}}\n```\n#{text}",
    )  # fmt: skip


def _rank(claim: Claim, value: float | None) -> float:
    assert value is not None
    return -value if claim.selection.higher_is_better else value


def _reason(again: Sequence[Finalist], size: int) -> str:
    if not again:
        return f"best validation metric of {size} nodes"
    return f"best mean validation metric over 4 seeds among {len(again)} candidates ({size} nodes tried)"


def _nodes(
    stage: str, size: int, parent: Node | None, chance: random.Random, buggy_share: float
) -> list[Node]:
    nodes: list[Node] = []
    for number in range(1, size + 1):
        arm: Arm = "intervention" if stage in ("Stage_3", "Stage_4") else "baseline"
        condition = ""
        if stage == "Stage_4":
            arm = "baseline" if number % 2 else "intervention"
            condition = UNVARIED if number == 1 else f"width {16 * ((number) // 2)}"
        is_buggy = number > 1 and chance.random() < buggy_share
        metric = None if is_buggy else round(0.9 + 0.08 * chance.random(), 9)
        above = parent.id if parent else None
        if len(nodes) > 2 and stage in ("Stage_2", "Stage_3"):
            above = nodes[chance.randrange(len(nodes))].id
        node = make_node(stage, number, metric, parent=above, arm=arm, condition=condition)
        if arm == "intervention":
            node = replace(node, params=dict(PARAMS) | {"dropout": 0.2}, code=CODE.format(dropout=0.2))
        nodes.append(node)
    return nodes


def _finalist(node: Node, chance: random.Random) -> Finalist:
    values = tuple((node.metric or 0.0) + chance.uniform(-0.01, 0.01) for _ in range(4))
    return Finalist(node.id, (11, 12, 13, 14), values, fmean(values), stdev(values) / 2)


def _pair(place: int, effect: float, chance: random.Random, *, lost: bool) -> Pair:
    base = 0.95 + chance.uniform(-0.01, 0.01)
    difference = effect + chance.uniform(-0.004, 0.004)
    return Pair(1_000_003 * (place + 1), base, None if lost else base + difference)


def _work(place: int, text: str) -> Work:
    return Work(
        title=text or f"On regularising network {place}", authors=("Ada Lovelace", "Noor Khan"), year=2014 + place,
        venue="JMLR", url=f"https://example.org/{place}?a=1&b=2_3",
    )  # fmt: skip


def facts_of(record: Record) -> list[Fact]:
    """Return the facts of a run with this record, as far as a paper rests on them."""
    facts: list[Fact] = []
    for stage in record.stages:
        for node in stage.nodes:
            facts.append(
                NodeCreated(
                    stage=node.stage,
                    node=node.id,
                    plan=node.plan,
                    parent=node.parent,
                    params=dict(node.params),
                )
            )
            facts.append(
                NodeCompleted(
                    stage=node.stage, node=node.id, buggy=node.buggy, seconds=node.seconds, metric=node.metric,
                    scores=dict(node.scores), error=node.error,
                )
            )  # fmt: skip
        facts.append(NodeSelectedBest(stage=stage.name, node=stage.best.id, reason=stage.reason))
    return [*facts, *facts_to_say(record)]
