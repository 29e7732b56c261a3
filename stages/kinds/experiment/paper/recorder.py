"""Records the facts of a run, so that its paper can be checked against them.

Law: every fact is passed on at once and unchanged; the record is bounded. A source that was reported twice
with different values counts as contradicted, and proves nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.catalog import StageMetric
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCompleted, NodeCreated, NodeRestored, NodeSelectedBest
from stages.kinds.experiment.record.numbers import METRIC_SAID, NODE_BIRTH, NODE_CHOICE, NODE_RESULT, Source
from stages.ports import Reporter

Heard = float | str | bool

FACTS_MAX: Final = 200_000  # the oldest are forgotten first


@dataclass(slots=True)
class Recorder:
    """A reporter that passes on to another one, and remembers every fact a paper may rest on."""

    reporter: Reporter
    contradicted: set[Source] = field(default_factory=set)
    _heard: OrderedDict[Source, Heard] = field(default_factory=OrderedDict)

    def say(self, fact: Fact) -> None:
        """Pass the fact on, and remember it."""
        self.reporter.say(fact)
        for source, value in said_by(fact):
            self._remember(source, value)

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        """Pass the file on."""
        self.reporter.made(path, name=name, content_type=content_type, stage=stage)

    def heard(self, source: Source) -> Heard | None:
        """Return the value of a source; None where there is none, or it was reported with different values."""
        return None if source in self.contradicted else self._heard.get(source)

    def has_heard(self, fact: Fact) -> bool:
        """Return whether exactly this was reported before."""
        parts = list(said_by(fact))
        return bool(parts) and all(self._heard.get(source) == value for source, value in parts)

    def nodes(self) -> frozenset[str]:
        """Return every node with a reported result."""
        return frozenset(
            source.about for source in self._heard if source.type == NODE_RESULT and source.field == "node"
        )

    def _remember(self, source: Source, value: Heard) -> None:
        if self._heard.setdefault(source, value) != value:
            self.contradicted.add(source)
        if len(self._heard) > FACTS_MAX:
            self._heard.popitem(last=False)


def said_by(fact: Fact) -> Iterator[tuple[Source, Heard]]:
    """Yield each value of a fact, with its source."""
    match fact:
        case StageMetric(stage=stage, name=name, value=value, step=step):
            yield Source(METRIC_SAID, stage, name, step=step), value
        case NodeCreated():
            yield from _birth(fact)
        case NodeCompleted():
            yield from _result(fact)
        case NodeRestored():
            yield from _birth(fact)
            yield from _result(fact)
        case NodeSelectedBest(stage=stage, node=node, reason=reason) if reason is not None:
            yield Source(NODE_CHOICE, stage, node, "reason"), reason
        case _:
            return


def _birth(fact: NodeCreated | NodeRestored) -> Iterator[tuple[Source, Heard]]:
    yield Source(NODE_BIRTH, fact.stage, fact.node, "plan"), fact.plan
    for name, value in fact.params.items():
        if isinstance(value, str | int | float | bool):
            yield Source(NODE_BIRTH, fact.stage, fact.node, f"params.{name}"), value


def _result(fact: NodeCompleted | NodeRestored) -> Iterator[tuple[Source, Heard]]:
    def source(name: str) -> Source:
        return Source(NODE_RESULT, fact.stage, fact.node, name)

    yield source("node"), fact.node
    yield source("buggy"), fact.buggy
    if fact.metric is not None:
        yield source("metric"), fact.metric
    if fact.error is not None:
        yield source("error"), fact.error
    for name, value in fact.scores.items():
        yield source(f"scores.{name}"), value
