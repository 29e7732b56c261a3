"""Asks items and scores their answers by inspect_ai, many at once, in a thread of its own.

Law: inspect_ai schedules, limits and logs; what is asked goes through the port of models, what is scored
through the suite. Each item comes back exactly once, also where it failed. A signal interrupts the caller,
never the event loop.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from inspect_ai import SampleSource, Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.hooks import Hooks, SampleEnd, hooks
from inspect_ai.log import EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.scorer import Score as InspectScore
from inspect_ai.scorer import Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState, generate
from inspect_ai.tool import ToolChoice, ToolInfo
from inspect_ai.util._display import init_display_type

from events.runtime.allocator import trim, use_one_arena
from events.runtime.errors import PipelineError
from stages.kinds.benchmark.suites.item import Item, Score
from stages.models.model import Answer, Model, ModelError, Question, Trouble

LOOK_EVERY_S: Final = 0.5
END_WAIT_S: Final = 10.0
AHEAD: Final = 2  # items that inspect_ai holds, for each that is asked at once
SLICE: Final = 500  # items of one evaluation by inspect_ai, which keeps some 4 kB of each until its end
# An evaluation that a person started may read settings from a file; a run has its own.
QUIET: Final = {"PYTHON_DOTENV_DISABLED": "1"}
PROVIDER: Final = "podfleet"  # by which inspect_ai knows our port of models
KEY: Final = "key"  # by which a message tells its item

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asking:
    """An item to be asked, under the key of its result."""

    key: str
    item: Item
    epoch: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What came of an item; `answer` is None where none came, and `score` says why.

    `trouble` is what the port of models gave up for.
    """

    key: str
    score: Score
    answer: Answer | None
    seconds: float
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How items are asked; `asked` is told of each before it is, and `score` is called in threads."""

    suite: str
    model: Model
    score: Callable[[Item, str], Score]
    asked: Callable[[str], None]
    concurrency: int
    scorers: int
    question: Question
    item_timeout_s: float
    log_folder: Path


def evaluate(askings: Sequence[Asking], orders: Orders) -> Iterator[Evaluated]:
    """Yield what came of each item, in the order in which they end.

    Raises `PipelineError` where the run cannot go on, such as one whose budget is spent.
    """
    evaluation = _Evaluation(orders, {each.key: each for each in askings})
    thread = threading.Thread(target=evaluation.run, name="evaluation", daemon=True)
    thread.start()
    try:
        yield from evaluation.results()
    finally:
        evaluation.stop()
        thread.join(END_WAIT_S)
    if evaluation.problem is not None:
        raise evaluation.problem


@dataclass(slots=True)
class _Evaluation:
    """One evaluation under way."""

    orders: Orders
    waiting: Mapping[str, Asking]
    problem: BaseException | None = None
    answers: dict[str, Answer] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    done: SimpleQueue[Evaluated | None] = field(default_factory=SimpleQueue)
    loop: asyncio.AbstractEventLoop | None = None
    task: asyncio.Task[Any] | None = None
    askers: ThreadPoolExecutor = field(init=False)
    scorers: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.askers = ThreadPoolExecutor(self.orders.concurrency, thread_name_prefix="ask")
        self.scorers = ThreadPoolExecutor(self.orders.scorers, thread_name_prefix="score")

    def results(self) -> Iterator[Evaluated]:
        """Yield results until the evaluation ends."""
        while True:
            try:
                found = self.done.get(timeout=LOOK_EVERY_S)  # a signal is handled at each look
            except Empty:
                continue
            if found is None:
                return
            yield found

    def run(self) -> None:
        """Evaluate in an event loop of this thread's own; whatever happens, the end is said."""
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            pass  # by `stop`: the caller knows
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self.fail(error)
        finally:
            self.done.put(None)

    def stop(self) -> None:
        """End the evaluation; requests that are open are left to themselves."""
        if self.loop is not None and self.task is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.task.cancel)
        self.askers.shutdown(wait=False, cancel_futures=True)
        self.scorers.shutdown(wait=False, cancel_futures=True)

    def fail(self, error: BaseException) -> None:
        """Let the evaluation end with the first error that is not an item's own."""
        self.problem = self.problem or error
        if self.task is not None:
            self.task.cancel()

    async def _run(self) -> None:
        global _current
        self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
        init_display_type("none")  # what it would draw stands in no terminal
        os.environ.update(QUIET)  # noqa: TID251 - read by inspect_ai alone
        use_one_arena()
        _current = self
        try:
            askings = iter(self.waiting.values())
            while part := list(islice(askings, SLICE)):
                await self._evaluate(part)
                if len(part) == SLICE:
                    # Its cycles wait for a collection, which comes late where there are many modules.
                    gc.collect()
                    trim()
        finally:
            _current = None

    async def _evaluate(self, part: Sequence[Asking]) -> None:
        await eval_async(
            self._task(part),
            model=get_model(f"{PROVIDER}/{self.orders.model.name}", memoize=False, evaluation=self),
            log_dir=str(self.orders.log_folder),
            log_samples=False,  # the rows and files of the run have them
            log_realtime=False,
            score_display=False,
            ctl_server=False,
            acp_server=False,
            fail_on_error=False,
            max_samples=self.orders.concurrency,
            time_limit=max(1, int(self.orders.item_timeout_s)),
        )

    def _task(self, part: Sequence[Asking]) -> Task:
        samples = (Sample(id=each.key, input=_messages(each), target=each.item.expected) for each in part)
        return Task(
            name=self.orders.suite,
            dataset=_Source(samples, AHEAD * self.orders.concurrency),
            solver=generate(),
            scorer=_scored_by_suite(self),
        )

    async def ask(self, key: str) -> Answer | None:
        """Ask an item; None where the port of models gave up. Raises what ends the run."""
        item = self.waiting[key].item
        question = replace(self.orders.question, system=item.system, text=item.prompt)

        def answered() -> Answer:
            self.orders.asked(key)  # here, so that nothing counts as asked that the end of a run kept back
            return self.orders.model.ask(question)

        try:
            answer = await self._in(self.askers, answered)
        except ModelError as error:
            self.troubles[key] = error.trouble
            self.scores[key] = Score(outcome="error", why=error.message)
            return None
        except PipelineError as error:
            self.fail(error)
            raise
        self.answers[key] = answer
        return answer

    async def score(self, key: str) -> Score:
        """Score the answer of an item; `end` tells it."""
        answer, item = self.answers.get(key), self.waiting[key].item
        if answer is None:
            found = self.scores.get(key) or Score(outcome="error", why="there is no answer")
        else:
            text = answer.text
            found = await self._in(self.scorers, lambda: self.orders.score(item, text))
        self.scores[key] = found
        return found

    def end(self, sample: EvalSample) -> None:
        """Hand over what came of an item."""
        key = str(sample.id)
        if key in self.ended or self.problem is not None:
            return
        self.ended.add(key)
        self.done.put(
            Evaluated(
                key=key,
                score=_score_of(sample, self.scores.pop(key, None), self.orders.item_timeout_s),
                answer=self.answers.pop(key, None),
                seconds=sample.total_time or 0.0,
                trouble=self.troubles.pop(key, None),
            )
        )

    async def _in(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, work)


class _Source(SampleSource):
    """Hands items to inspect_ai as others end: it makes a task of each at once, and keeps it."""

    def __init__(self, samples: Iterator[Sample], ahead: int) -> None:
        self._samples = samples
        self._ahead = ahead

    def initial_samples(self) -> list[Sample]:
        return list(islice(self._samples, self._ahead))

    async def sample_complete(self, sample: EvalSample) -> list[Sample]:
        return list(islice(self._samples, 1))


_current: _Evaluation | None = None  # inspect_ai has one evaluation at a time, and hooks for all


@modelapi(name=PROVIDER)
class _Port(ModelAPI):
    """Our port of models, as inspect_ai asks for one."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig | None = None,
        *,
        evaluation: _Evaluation,
    ) -> None:
        super().__init__(model_name)
        self._evaluation = evaluation

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        key = next(str(each.metadata[KEY]) for each in input if each.metadata)
        answer = await self._evaluation.ask(key)
        if answer is None:
            return ModelOutput.from_content(self.model_name, "", "unknown")
        output = ModelOutput.from_content(
            self.model_name, answer.text, "max_tokens" if answer.is_cut_off else "stop"
        )
        prompt, completion = tokens_of(answer)
        output.usage = ModelUsage(
            input_tokens=prompt, output_tokens=completion, total_tokens=prompt + completion
        )
        return output

    def max_connections(self) -> int:
        return self._evaluation.orders.concurrency

    def should_retry(self, ex: BaseException) -> bool:
        return False  # the port has retried


@hooks(name="podfleet", description="Hands over what came of each item.")
class _Listener(Hooks):
    """Turns the end of a sample into the end of an item."""

    def enabled(self) -> bool:
        return _current is not None

    async def on_sample_end(self, data: SampleEnd) -> None:
        if _current is not None:
            _current.end(data.sample)


@scorer(metrics=[mean()])
def _scored_by_suite(evaluation: _Evaluation) -> Scorer:
    async def score(state: TaskState, target: Target) -> InspectScore:
        found = await evaluation.score(str(state.sample_id))
        return InspectScore(value=found.value)  # it keeps each until the end, so without the texts

    return score


def tokens_of(answer: Answer) -> tuple[int, int]:
    """Return the tokens of all requests for an answer, as far as the server counted them."""
    return (
        sum(each.prompt_tokens or 0 for each in answer.usages),
        sum(each.completion_tokens or 0 for each in answer.usages),
    )


def _messages(asking: Asking) -> list[ChatMessage]:
    user = ChatMessageUser(content=asking.item.prompt, metadata={KEY: asking.key})
    return [ChatMessageSystem(content=asking.item.system), user] if asking.item.system else [user]


def _score_of(sample: EvalSample, found: Score | None, limit_s: float) -> Score:
    """Return the score of an item, else what prevented it."""
    if sample.error is not None:
        return Score(outcome="error", why=sample.error.message)
    if sample.limit is not None:
        return Score(outcome="error", why=f"it was given up after {limit_s:g} s (item_timeout_s)")
    return found or Score(outcome="error", why="it was not scored")
