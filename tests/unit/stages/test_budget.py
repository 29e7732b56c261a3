"""The limits of a run's cost: kept to, told with both numbers, and kept over a new attempt."""

from __future__ import annotations

import json
import math
import threading

import pytest

from events.catalog import Price, RunLog, RunUsage
from events.kinds.declaring.fact import Fact
from events.runtime.errors import Canceled, PipelineError
from events.testing import ManualClock
from stages.models.budget import Budget, Spent
from stages.models.metered import FRAME_TOKENS_MAX, Metered, worst_usage
from stages.models.model import Answer, ModelError, Question, QuestionCanceled, Usage
from stages.models.prices import Prices

PRICE = Price(input_usd_per_mtok=1.0, output_usd_per_mtok=10.0)
QUESTION = Question(purpose="draft", system="s" * 40, text="t" * 60)


def usage(prompt: int | None = 100_000, completion: int | None = 10_000) -> Usage:
    return Usage(prompt_tokens=prompt, completion_tokens=completion, seconds=1.0)


def budget(clock: ManualClock | None = None, **limits: float | int | Spent | None) -> Budget:
    return Budget(clock=clock or ManualClock(), **limits)  # type: ignore[arg-type]


class ScriptedModel:
    """Answers or fails as it is told to, one after the other."""

    def __init__(self, *steps: Answer | BaseException, name: str = "m") -> None:
        self.name = name
        self.steps = list(steps)

    def ask(self, question: Question) -> Answer:
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step


def metered(
    model: ScriptedModel, limits: Budget, rows: dict[str, Price] | None = None
) -> tuple[Metered, list[Fact]]:
    facts: list[Fact] = []
    return Metered(model, limits, Prices({"m": PRICE} if rows is None else rows), facts.append), facts


def test_without_limits_everything_goes() -> None:
    free = budget()
    free.charge(usage(10**9, 10**9), PRICE)
    free.check()
    free.check_before_asking()


def test_money_ends_a_run_and_both_numbers_are_told() -> None:
    limited = budget(max_cost_usd=0.3)
    limited.charge(usage(), PRICE)
    limited.check_before_asking()
    limited.charge(usage(), PRICE)
    with pytest.raises(PipelineError, match=r"0\.4 of 0\.3 USD \(max_cost_usd\)") as caught:
        limited.check()
    assert caught.value.code == "BUDGET_EXCEEDED"
    assert not caught.value.retryable
    assert "kept" in caught.value.message


def test_tokens_end_a_run_also_where_no_price_is_known() -> None:
    limited = budget(max_tokens=200_000)
    limited.charge(usage(), None)
    limited.check_before_asking()
    limited.charge(usage(), None)
    with pytest.raises(PipelineError, match="220000 of 200000 tokens") as caught:
        limited.check()
    assert caught.value.code == "BUDGET_EXCEEDED"
    assert limited.spent().unpriced == 2


def test_what_is_used_up_to_the_last_may_end_and_not_ask_again() -> None:
    exact = budget(max_tokens=110_000)
    exact.charge(usage(), PRICE)
    exact.check()
    with pytest.raises(PipelineError):
        exact.check_before_asking()


def test_no_money_means_no_paid_question_and_no_end_of_what_is_free() -> None:
    nothing = budget(max_cost_usd=0.0)
    nothing.check()
    nothing.check_before_asking(is_free=True)
    with pytest.raises(PipelineError):
        nothing.check_before_asking()


def test_the_pods_time_costs_too() -> None:
    clock = ManualClock()
    limited = budget(clock, max_cost_usd=1.0, pod_usd_per_hour=2.0)
    clock.advance(1700)
    limited.check()
    clock.advance(200)
    with pytest.raises(PipelineError, match="for the pod's time"):
        limited.check()
    assert limited.spent().pod_usd == pytest.approx(2.0 * 1900 / 3600)


def test_the_next_attempt_goes_on_with_what_is_spent() -> None:
    clock = ManualClock()
    first = budget(clock, max_cost_usd=1.0, pod_usd_per_hour=1.0)
    first.charge(usage(), PRICE)
    first.charge(usage(), None, is_estimate=True)
    clock.advance(360)
    state = json.loads(json.dumps(first.spent().state()))
    second = budget(ManualClock(), max_cost_usd=1.0, pod_usd_per_hour=1.0, spent=Spent.of(state))
    assert second.spent() == first.spent()
    assert second.spent() == Spent(
        tokens=220_000, model_usd=0.2, pod_usd=pytest.approx(0.1), unpriced=1, estimated=1
    )


def test_many_threads_lose_no_token() -> None:
    shared = budget(max_tokens=10**12)

    def work() -> None:
        for _ in range(500):
            shared.charge(usage(1, 1), PRICE)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.spent().tokens == 8 * 500 * 2


def test_each_billed_request_is_one_event_with_the_price_that_was_applied() -> None:
    model, facts = metered(
        ScriptedModel(Answer(text="x", usage=usage(), billed_before=(usage(7, None),))), budget()
    )
    model.ask(QUESTION)
    assert facts == [
        RunUsage(purpose="draft", model="m", prompt_tokens=7, seconds=1.0, price=PRICE),
        RunUsage(
            purpose="draft",
            model="m",
            prompt_tokens=100_000,
            completion_tokens=10_000,
            seconds=1.0,
            cost_usd=pytest.approx(0.2),
            price=PRICE,
        ),
    ]


@pytest.mark.parametrize(
    "end",
    [ModelError("malformed", "odd", (usage(3, 4), usage(5, 6))), QuestionCanceled("stop", (usage(8, 10),))],
)
def test_a_question_without_an_answer_is_billed_too(end: ModelError | QuestionCanceled) -> None:
    model, facts = metered(ScriptedModel(end), budget())
    with pytest.raises((ModelError, Canceled)):
        model.ask(QUESTION)
    assert sum((fact.prompt_tokens or 0) + (fact.completion_tokens or 0) for fact in facts) == 18  # type: ignore[attr-defined]
    assert model.budget.spent().tokens == 18


def test_the_answer_that_was_too_dear_is_kept_and_the_next_question_is_not_asked() -> None:
    scripted = ScriptedModel(Answer(text="dear", usage=usage()), Answer(text="never", usage=usage()))
    model, facts = metered(scripted, budget(max_cost_usd=0.1))
    assert model.ask(QUESTION).text == "dear"
    with pytest.raises(PipelineError) as caught:
        model.ask(QUESTION)
    assert caught.value.code == "BUDGET_EXCEEDED"
    assert len(scripted.steps) == 1
    assert len(facts) == 1


def test_a_server_that_does_not_count_is_limited_by_the_length_of_the_texts() -> None:
    model, facts = metered(
        ScriptedModel(Answer(text="a" * 400, usage=usage(None, None)), Answer(text="", usage=usage())),
        budget(max_tokens=125),
    )
    model.ask(QUESTION)
    assert facts == [RunUsage(purpose="draft", model="m", seconds=1.0, price=PRICE)]
    assert model.budget.spent() == Spent(tokens=125, model_usd=pytest.approx(0.001025), estimated=1)
    with pytest.raises(PipelineError):
        model.ask(QUESTION)


def test_a_model_without_a_price_is_told_once_and_never_costs_zero() -> None:
    answers = [Answer(text="x", usage=usage()) for _ in range(3)]
    model, facts = metered(ScriptedModel(*answers, name="nobody-knows"), budget(max_cost_usd=1.0), rows={})
    for _ in range(3):
        model.ask(QUESTION)
    logs = [fact for fact in facts if isinstance(fact, RunLog)]
    assert len(logs) == 1
    assert "nobody-knows" in logs[0].message
    assert "max_cost_usd does not limit it" in logs[0].message
    assert logs[0].level == "warning"
    assert [fact.cost_usd for fact in facts if isinstance(fact, RunUsage)] == [None] * 3
    assert model.budget.spent().unpriced == 3


def test_a_free_model_is_asked_without_money() -> None:
    free = Price(input_usd_per_mtok=0.0, output_usd_per_mtok=0.0)
    model, facts = metered(
        ScriptedModel(Answer(text="x", usage=usage())), budget(max_cost_usd=0.0), rows={"*": free}
    )
    model.ask(QUESTION)
    assert [fact.cost_usd for fact in facts if isinstance(fact, RunUsage)] == [0.0]


DEAR = Price(input_usd_per_mtok=0.0, output_usd_per_mtok=1_000_000.0)  # a dollar a token


def dear(tokens: int, *, billed_before: int = 0) -> Answer:
    bill = usage(1, tokens)
    return Answer(text="x", usage=bill, billed_before=(bill,) * billed_before)


class SlowModel:
    """Answers with all that it may, as soon as every thread that may ask at once does."""

    name = "m"

    def __init__(self, at_once: int) -> None:
        self.barrier = threading.Barrier(at_once)
        self.asked = 0
        self.lock = threading.Lock()

    def ask(self, question: Question) -> Answer:
        with self.lock:
            self.asked += 1
        if self.asked <= self.barrier.parties:
            self.barrier.wait(60)
        return dear(question.tokens_max)


@pytest.mark.parametrize(("tokens", "at_once", "asked"), [(2, 4, 4), (3, 2, 2), (8, 1, 1), (1, 8, 8)])
def test_callers_at_the_same_moment_never_spend_more_than_the_budget(
    tokens: int, at_once: int, asked: int
) -> None:
    slow = SlowModel(at_once)
    limits = budget(max_cost_usd=8.0)
    model = Metered(slow, limits, Prices({"m": DEAR}), lambda _: None)
    question = Question(purpose="draft", system="", text="t", tokens_max=tokens, requests_max=1)
    refused: list[str] = []

    def work() -> None:
        try:
            model.ask(question)
        except PipelineError as error:
            refused.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert slow.asked == asked
    assert limits.spent().cost_usd == asked * tokens <= 8.0
    assert refused == ["BUDGET_EXCEEDED"] * (12 - asked)


def test_a_question_that_does_not_fit_beside_another_waits_and_is_asked_when_that_was_cheaper() -> None:
    limits = budget(max_cost_usd=8.0)
    is_held, may_end, has_asked = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with limits.reserved(6.0):
            is_held.set()
            may_end.wait(60)
            limits.charge(usage(0, 1), DEAR)

    def second() -> None:
        with limits.reserved(5.0):
            has_asked.set()

    threads = [threading.Thread(target=each) for each in (first, second)]
    threads[0].start()
    is_held.wait(60)
    threads[1].start()
    assert not has_asked.wait(0.05)
    may_end.set()
    assert has_asked.wait(60)
    for thread in threads:
        thread.join(60)


def test_a_question_whose_worst_price_would_pass_the_budget_is_not_asked() -> None:
    scripted = ScriptedModel(dear(1))
    model, facts = metered(scripted, budget(max_cost_usd=8.0), {"m": DEAR})
    with pytest.raises(PipelineError, match=r"0 of 8 USD .* may cost 9 USD, so it is not asked"):
        model.ask(Question(purpose="draft", system="", text="t", tokens_max=9))
    assert (len(scripted.steps), facts) == (1, [])


@pytest.mark.parametrize(("tokens", "most"), [(1, 4), (2, 4), (3, 2), (4, 2), (5, 1), (8, 1)])
def test_a_question_is_sent_again_only_as_often_as_the_budget_affords(tokens: int, most: int) -> None:
    asked: list[Question] = []

    class Listening(ScriptedModel):
        def ask(self, question: Question) -> Answer:
            asked.append(question)
            assert limits.affords(1.0, 99) == max(1, 8 - most * tokens), "each of them is reserved"
            return dear(tokens, billed_before=question.requests_max - 1)

    limits = budget(max_cost_usd=8.0)
    model, _ = metered(Listening(), limits, {"m": DEAR})
    model.ask(Question(purpose="draft", system="", text="t", tokens_max=tokens))
    assert asked[0].requests_max == most
    assert limits.spent().cost_usd == most * tokens <= 8.0


def test_no_prompt_has_more_tokens_than_bytes() -> None:
    question = Question(purpose="p", system="é", text="日本", tokens_max=5)
    assert worst_usage(question) == Usage(
        prompt_tokens=8 + FRAME_TOKENS_MAX, completion_tokens=5, seconds=0.0
    )


def test_what_others_have_reserved_is_left_for_no_second_request() -> None:
    limits = budget(max_cost_usd=10.0)
    assert limits.affords(1.0, 20) == 10
    with limits.reserved(6.5):
        assert (limits.affords(1.0, 20), limits.affords(1.0, 2), limits.affords(9.0, 20)) == (3, 2, 1)
    assert limits.affords(0.0, 20) == 20


def test_the_pods_time_lasts_as_long_as_its_price_is_left() -> None:
    clock = ManualClock()
    assert budget(max_cost_usd=1.0).time_left_s() == math.inf, "no price is known"
    assert budget(pod_usd_per_hour=1.0).time_left_s() == math.inf, "no limit is set"
    limited = budget(clock, max_cost_usd=2.0, pod_usd_per_hour=3600.0, spent=Spent(pod_usd=0.5))
    assert limited.time_left_s() == pytest.approx(1.5)
    with limited.reserved(1.0):
        assert limited.time_left_s() == pytest.approx(0.5)
    clock.advance(5.0)
    assert limited.time_left_s() == 0.0
