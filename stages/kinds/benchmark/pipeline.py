"""Benchmarks: the suites of a run one after the other, each item asked once over all attempts."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from events.kinds.benchmark import ITEMS, OF_SUITES, SUITES, BenchmarkSpec, suites_of
from events.runtime.errors import PipelineError
from stages.context import Context
from stages.kinds.benchmark.evaluation import Evaluation
from stages.kinds.benchmark.journal import Journal
from stages.kinds.benchmark.subject import Subject, opened
from stages.kinds.benchmark.suite_loader import LOADER, SuiteLoader
from stages.kinds.benchmark.suites.data.sources import DataRefused, NeedsSetup
from stages.kinds.benchmark.suites.item import Item, Suite
from stages.kinds.benchmark.suites.subset import chosen
from stages.kinds.benchmark.tally import Tally, headline
from stages.models.budget import Budget
from stages.models.metered import Metered

NOT_READY: Final = "NO_SUITE_READY"
NOTHING_SCORED: Final = "NOTHING_SCORED"


def run(context: Context) -> str:
    """Evaluate the suites of a benchmark. Raises `PipelineError` where none of them has a score."""
    return run_with(context, LOADER)


def run_with(context: Context, loader: SuiteLoader) -> str:
    """Evaluate the suites that a loader finds."""
    assert isinstance(context.spec, BenchmarkSpec)
    with ExitStack() as stack:
        benchmark = _Benchmark(context, context.spec, loader, stack)
        stack.callback(benchmark.journal.close)
        return benchmark.run()


@dataclass(slots=True)
class _Benchmark:
    """One attempt at a benchmark; the model is opened for the first suite that has its data."""

    context: Context
    spec: BenchmarkSpec
    loader: SuiteLoader
    stack: ExitStack
    journal: Journal = field(init=False)
    tallies: dict[str, Tally] = field(default_factory=dict)
    ready: dict[str, tuple[Suite, list[Item]]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    _subject: tuple[Subject, Metered] | None = None

    def __post_init__(self) -> None:
        self.journal = Journal(self.context)
        self.tallies = {name: Tally() for name in suites_of(self.spec)}

    def run(self) -> str:
        """Evaluate, and return the line that sums the run up."""
        budget = self._budget()
        self.journal.spent = budget.spent
        self._take_over()
        for name in self.tallies:
            self._tell(name, "pending")
        self._load()
        if not self.ready:
            words = "; ".join(f"{name}: {says}" for name, says in self.said.items())
            raise PipelineError(NOT_READY, f"no suite can be asked. {words}")
        slots = threading.BoundedSemaphore(self.context.tools.slots)
        for number, (name, (suite, items)) in enumerate(self.ready.items(), start=1):
            with self.context.stage(name, index=number, total=len(self.ready)) as stage:
                subject, model = self._opened(budget)
                evaluation = Evaluation(
                    context=self.context, spec=self.spec, suite=suite, journal=self.journal, subject=subject,
                    model=model, slots=slots, tally=self.tallies[name],
                )  # fmt: skip
                try:
                    evaluation.run(stage, items)
                except PipelineError as error:
                    self._give_up(name, error)
                    raise
                finally:
                    evaluation.keep_log()
                    self._summarize()
                self._end(name)
        if self._scores() is None:
            raise PipelineError(NOTHING_SCORED, "no item has a score: the model answered none of them")
        return self._line()

    def _take_over(self) -> None:
        """Record the rows of earlier attempts again: those of the newest attempt are the run's."""
        count = 0
        for row in self.journal.restore():
            self.context.result(ITEMS.name, row.key, row.values, row.status, row.detail)
            tally = self.tallies.get(str(row.values.get("suite")))
            if tally is not None:
                tally.add(row.values)
            count += 1
        if count or self.journal.lost:
            self.context.log(
                f"{count:,} items of earlier attempts are taken over; {len(self.journal.lost)} were asked, "
                "and what came of them is not known"
            )

    def _budget(self) -> Budget:
        return Budget(
            clock=self.context.clock,
            max_cost_usd=self.spec.max_cost_usd,
            max_tokens=self.spec.max_tokens,
            pod_usd_per_hour=self.context.tools.pod_usd_per_hour,
            spent=self.journal.spent_before(),
        )

    def _load(self) -> None:
        """Load the items of each suite; one without its data says what to do, and the others go on."""
        sources = self.loader.sources(self.context)
        for name in self.tallies:
            try:
                suite = self.loader.suite(name, self.spec)
                items = self.loader.load(suite, sources)
            except (NeedsSetup, DataRefused) as error:
                self.said[name] = str(error)
                self._tell(name, "needs_setup" if isinstance(error, NeedsSetup) else "failed", str(error))
                continue
            self.ready[name] = (
                suite,
                chosen(
                    name,
                    items,
                    subset_pct=self.spec.subset_pct,
                    sample_size=self.spec.sample_size,
                    seed=self.spec.seed,
                ),
            )
            self.tallies[name].wanted = len(self.ready[name][1]) * self.spec.epochs

    def _opened(self, budget: Budget) -> tuple[Subject, Metered]:
        if self._subject is None:
            tokens = max(self.spec.tokens_max or suite.tokens_max for suite, _ in self.ready.values())
            subject = self.stack.enter_context(opened(self.context, self.spec, tokens))
            self._subject = subject, Metered(subject.model, budget, subject.prices, self.context.emit)
        return self._subject

    def _end(self, name: str) -> None:
        tally = self.tallies[name]
        if tally.scored:
            self._tell(name, "succeeded")
        else:
            self._tell(name, "failed", "no item has a score: the model answered none of them")

    def _give_up(self, name: str, error: PipelineError) -> None:
        """Tell what becomes of the suites that are left, where the run cannot go on."""
        if error.retryable:
            self._tell(name, "pending", error.message)
            return
        names = list(self.ready)
        self._tell(name, "failed", error.message)
        for each in names[names.index(name) + 1 :]:
            self._tell(each, "skipped", "the run ended before")

    def _tell(self, name: str, state: str, says: str = "") -> None:
        self.context.result(OF_SUITES.name, name, self.tallies[name].row(state, says[:500]), status=state)

    def _summarize(self) -> None:
        self.context.summarize(headline(self.tallies, SUITES))

    def _scores(self) -> float | None:
        return next((each.score for each in self.tallies.values() if each.score is not None), None)

    def _line(self) -> str:
        scores = [
            f"{name} {each.score:.1%} of {each.scored:,}"
            for name, each in self.tallies.items()
            if each.score is not None
        ]
        missing = f"; not asked: {', '.join(self.said)}" if self.said else ""
        return f"{self.spec.model}: {', '.join(scores)}{missing}"
