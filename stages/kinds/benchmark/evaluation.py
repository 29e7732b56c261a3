"""Evaluates one suite: what is missing is asked, each result recorded, the suite's row told as it goes on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.kinds.benchmark import ITEMS, OF_SUITES, BenchmarkSpec, ItemsAsked
from events.runtime.errors import PipelineError
from stages.context import Context, Stage
from stages.kinds.benchmark.engine import Asking, Evaluated, Orders, evaluate
from stages.kinds.benchmark.journal import Journal, Row
from stages.kinds.benchmark.outage import Outage
from stages.kinds.benchmark.rows import askings_of, file_of, row_of, text_of
from stages.kinds.benchmark.subject import Subject
from stages.kinds.benchmark.suites.item import Item, Scoring, Suite
from stages.kinds.benchmark.tally import Tally
from stages.models.metered import Metered
from stages.models.model import Question

TELL_EVERY_S: Final = 5.0
METRICS_MAX: Final = 100  # of one suite
SCORE: Final = "score"


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """One suite of a run; `tally` has the items of earlier attempts already."""

    context: Context
    spec: BenchmarkSpec
    suite: Suite
    journal: Journal
    subject: Subject
    model: Metered
    slots: threading.BoundedSemaphore
    tally: Tally
    _told_s: float = field(default=0.0, init=False)

    def run(self, stage: Stage, items: list[Item]) -> None:
        """Ask what is missing. Raises `PipelineError` where the run cannot go on."""
        askings = list(askings_of(self.suite.name, items, self.spec.epochs))
        self.tally.wanted = len(askings)
        missing = {each.key: each for each in askings if each.key not in self.journal.done}
        self.tell("running")
        self._bill_lost(missing)
        outage = Outage()
        try:
            self._ask(missing, outage, stage)
            again = outage.begin_again()
            self._ask({key: missing[key] for key in again}, outage, stage)
            for found in outage.left(has_score=self.tally.scored > 0):
                self._record(missing[found.key], found)
        except PipelineError:
            self.journal.unanswered |= outage.held.keys()
            raise

    def _ask(self, askings: dict[str, Asking], outage: Outage, stage: Stage) -> None:
        for found in evaluate(list(askings.values()), self._orders()) if askings else ():
            if not outage.holds(found):
                self._record(askings[found.key], found)
                self._progress(stage)

    def tell(self, state: str, says: str = "") -> None:
        """Tell the row of the suite."""
        self._told_s = self.context.clock.monotonic_s()
        self.context.result(OF_SUITES.name, self.suite.name, self.tally.row(state, says), status=state)

    def _orders(self) -> Orders:
        folder = self.context.workspace / "programs" / self.suite.name
        folder.mkdir(parents=True, exist_ok=True)
        log_folder = self.context.workspace / "inspect" / self.suite.name
        log_folder.mkdir(parents=True, exist_ok=True)
        scoring = Scoring(
            sandbox=self.context.tools.sandbox, folder=folder, slots=self.slots, model=self.model
        )
        return Orders(
            suite=self.suite.name,
            model=self.model,
            score=lambda item, answer: self.suite.scorer(item, answer, scoring),
            asked=lambda key: self.context.emit(ItemsAsked(suite=self.suite.name, keys=[key])),
            concurrency=self.spec.concurrency,
            scorers=max(self.spec.concurrency, self.context.tools.slots),
            question=self._question(),
            item_timeout_s=self.spec.item_timeout_s,
            log_folder=log_folder,
        )

    def _question(self, item: Item | None = None) -> Question:
        return Question(
            purpose=self.suite.name,
            system="" if item is None else item.system,
            text="" if item is None else item.prompt,
            temperature=self.spec.temperature,
            tokens_max=self.spec.tokens_max or self.suite.tokens_max,
            requests_max=self.spec.item_retries + 1,
        )

    def _bill_lost(self, missing: dict[str, Asking]) -> None:
        """Count the requests that were open when an earlier attempt died: billed perhaps, and not known."""
        for key in sorted(self.journal.lost & missing.keys()):
            self.model.lost(self._question(missing[key].item))

    def _record(self, asking: Asking, found: Evaluated) -> None:
        name = file_of(asking, self.suite.name)
        path = self.context.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(asking, found), encoding="utf-8", errors="replace")
        self.context.keep(path, name)
        price = self.subject.prices.of(self.model.name)
        values = row_of(asking, found, self.suite.name, price, int(asking.key in self.journal.lost))
        row = Row(key=asking.key, values=values, status=found.score.outcome, detail=name)
        self.context.result(ITEMS.name, row.key, row.values, row.status, row.detail)
        self.journal.add(row)
        self.tally.add(values)

    def _progress(self, stage: Stage) -> None:
        tally = self.tally
        if tally.items % max(1, tally.wanted // METRICS_MAX) == 0:
            stage.progress(tally.items / tally.wanted, f"{tally.items:,} of {tally.wanted:,} items")
            if tally.score is not None:
                stage.metric(SCORE, tally.score, step=tally.items)
        if self.context.clock.monotonic_s() - self._told_s >= TELL_EVERY_S:
            self.tell("running")

    def keep_log(self) -> None:
        """Hand over what inspect_ai has logged."""
        for path in sorted((self.context.workspace / "inspect" / self.suite.name).glob("*.eval")):
            self.context.keep(path, f"inspect/{self.suite.name}/{Path(path).name}")
