"""Every printed number comes from an event; each planted lie is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from events.catalog import StageMetric
from events.kinds.experiment import NodeCompleted
from stages.kinds.experiment.paper.document import LEVELS, composed
from stages.kinds.experiment.paper.latex import latex_of
from stages.kinds.experiment.paper.recorder import Recorder
from stages.kinds.experiment.paper.tracing import trace
from stages.kinds.experiment.paper.words import write_words
from stages.kinds.experiment.record.numbers import VALIDATION, Numbers, numbers_of
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.testing import HOSTILE, facts_of, make_record

WitnessOf = Callable[..., Recorder]
RECORD = make_record(works=2)
RECORDS: dict[str, dict[str, Any]] = {
    "plain": {}, "lost": {"lost": 2}, "poor": {"finalists": 0, "sizes": (1, 1, 1, 1)},
    "values": {"metric": "rmse"}, "seconds": {"metric": "training_seconds"},
    "hostile": {"text": HOSTILE, "works": 2},
    "long": {"sizes": (20, 12, 12, 18)},
    "tiny effect": {"effect": 1e-9}, "many choices": {"params": {f"choice_{n}": n * 1.1 for n in range(30)}},
}  # fmt: skip


def source_of(record: Record, numbers: Numbers) -> str:
    """Return the LaTeX source of the paper with every detail."""
    numbers.quote("author", "nobody", "a test")
    document = composed(record, write_words(record, numbers), numbers, (), LEVELS[0], Path())
    return latex_of(document, numbers)


def lies_in(
    witness: Recorder, *, tex: Callable[[str], str] = str, numbers: Callable[[Numbers], None] | None = None
) -> tuple[str, ...]:
    """Return what is found after the source, or the numbers that it was made from, were changed."""
    known = numbers_of(RECORD)
    if numbers is not None:
        numbers(known)
    source = source_of(RECORD, known)
    changed = tex(source)
    assert numbers is not None or changed != source or tex is str, "nothing was planted"
    return trace(changed, known, witness).untraced


@pytest.mark.parametrize("name", RECORDS)
def test_every_number_of_an_honest_paper_is_traced(name: str, witness_of: WitnessOf) -> None:
    record = make_record(**RECORDS[name])
    numbers = numbers_of(record)
    tex = source_of(record, numbers)
    traced = trace(tex, numbers, witness_of(record))
    assert traced.untraced == ()
    body = tex.partition(r"\begin{document}")[2].partition(r"\section*{Appendix")[0]
    printed = re.findall(r"\\val\{", body)
    assert traced.count == len(printed) >= 50


def test_a_number_changed_in_the_source_is_found(witness_of: WitnessOf) -> None:
    shown = numbers_of(RECORD).text("effect.mean")
    lies = lies_in(
        witness_of(RECORD),
        tex=lambda tex: tex.replace(rf"\val{{effect.mean}}{{{shown}}}", r"\val{effect.mean}{+0.9900}", 1),
    )
    assert lies == (f"'+0.9900' is printed as effect.mean, which is {shown}",)


def test_a_number_under_the_key_of_another_is_found(witness_of: WitnessOf) -> None:
    lies = lies_in(
        witness_of(RECORD), tex=lambda tex: tex.replace(r"\val{nodes.tried}{", r"\val{units.measured}{", 1)
    )
    assert len(lies) == 1
    assert "is printed as units.measured, which is 10" in lies[0]


def test_a_number_under_a_key_that_nobody_knows_is_found(witness_of: WitnessOf) -> None:
    lies = lies_in(
        witness_of(RECORD), tex=lambda tex: tex.replace(r"\section{Con", r"\val{effect.x}{7}\section{Con")
    )
    assert lies == ("'7' is printed as 'effect.x', which was not measured",)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("The accuracy was 0.97.", "'0.97.'"), (r"It rose by 12\% on average.", "'12%'"),
        ("$12$ seeds", "'$12$'"),
        (r"\textbf{0.5}", "'0.5'"), ("\\emph{about\n99}", "'99'"), (r"\mbox{1}\mbox{2}", "'2'"),
        (r"\section{The 3rd}", "'3rd'"), ("a gain of twelve percent", "'twelve percent'"), ("³", "'³'"),
        (r"\unknown{a}{42}", "'42'"),
    ],
)  # fmt: skip
def test_a_number_typed_into_the_prose_is_found(typed: str, found: str, witness_of: WitnessOf) -> None:
    lies = lies_in(
        witness_of(RECORD),
        tex=lambda tex: tex.replace(r"\section{Method}", f"{typed}\n\n\\section{{Method}}"),
    )
    assert any(found in lie and "is no measured number" in lie for lie in lies), lies


def test_a_number_typed_into_the_title_a_caption_or_a_table_is_found(witness_of: WitnessOf) -> None:
    for old, new in (
        (r"\title{", r"\title{A gain of 5: "),
        (r"\caption{", r"\caption{By 5. "),
        (r"\bottomrule", "x & 5 & 5 \\\\\n\\bottomrule"),
        (r"\begin{abstract}", "\\begin{abstract}5 "),
    ):
        lies = lies_in(witness_of(RECORD), tex=lambda tex, old=old, new=new: tex.replace(old, new, 1))
        assert len(lies) == 1, (old, lies)


def test_a_number_in_the_listing_states_no_result(witness_of: WitnessOf) -> None:
    record = replace_code(RECORD, "accuracy = 0.999\n")
    numbers = numbers_of(record)
    assert trace(source_of(record, numbers), numbers, witness_of(record)).untraced == ()


def replace_code(record: Record, code: str) -> Record:
    stages = [
        replace(stage, best=replace(stage.best, code=code)) if stage.name == "Stage_3" else stage
        for stage in record.stages
    ]
    return replace(record, stages=tuple(stages))


def test_a_quote_that_nobody_said_is_found(witness_of: WitnessOf) -> None:
    lies = lies_in(
        witness_of(RECORD),
        tex=lambda tex: tex.replace(r"\section{Method}", "\\said{it gained 12 points}\n\\section{Method}"),
    )
    assert lies == ("'it gained 12 points' is quoted, and nobody said it",)


def test_a_plan_that_was_quoted_otherwise_than_it_was_said_is_found(witness_of: WitnessOf) -> None:
    def misquote(numbers: Numbers) -> None:
        quote = numbers.quotes["stage_2.node_1.plan"]
        numbers.quotes[quote.key] = replace(quote, said="a better plan", text="a better plan")

    lies = lies_in(witness_of(RECORD), numbers=misquote)
    assert len(lies) == 1
    assert lies[0].startswith("stage_2.node_1.plan is quoted, and plan of Stage_2/1")


@pytest.mark.parametrize(
    "key", ["effect.mean", "unit_3.intervention", "stage_3.node_1.metric", "setting.epochs"]
)
def test_a_value_that_no_event_said_is_found_however_well_it_is_printed(
    key: str, witness_of: WitnessOf
) -> None:
    def invent(numbers: Numbers) -> None:
        old = numbers.numbers[key]
        sign = "+" if old.text.startswith("+") else ""
        numbers.numbers[key] = replace(old, value=77.0, text=f"{sign}77.0000")

    lies = lies_in(witness_of(RECORD), numbers=invent)
    assert any(lie.startswith(f"{key} is 77.0, and the events said otherwise") for lie in lies), lies


def test_a_value_that_is_printed_rounded_the_wrong_way_is_found(witness_of: WitnessOf) -> None:
    def round_up(numbers: Numbers) -> None:
        old = numbers.numbers["unit_1.baseline"]
        numbers.numbers["unit_1.baseline"] = replace(old, text=f"{old.value + 0.0001:.4f}")

    lies = lies_in(witness_of(RECORD), numbers=round_up)
    assert len(lies) == 1
    assert "unit_1.baseline is 0." in lies[0]
    assert "would be printed" in lies[0]


def test_a_difference_that_is_not_one_is_found(witness_of: WitnessOf) -> None:
    def swap(numbers: Numbers) -> None:
        old = numbers.numbers["unit_1.difference"]
        numbers.numbers["unit_1.difference"] = replace(old, source=old.source[::-1])

    assert any("unit_1.difference" in lie for lie in lies_in(witness_of(RECORD), numbers=swap))


def test_a_count_that_leaves_out_its_sources_is_found(witness_of: WitnessOf) -> None:
    def fewer(numbers: Numbers) -> None:
        old = numbers.numbers["units.failed.baseline"]
        numbers.numbers["units.failed.baseline"] = replace(old, value=1.0, text="1")

    assert any(
        lie.startswith("units.failed.baseline is 1.0") for lie in lies_in(witness_of(RECORD), numbers=fewer)
    )


def test_a_number_that_was_said_twice_differently_proves_nothing(witness_of: WitnessOf) -> None:
    witness = witness_of(RECORD)
    said = numbers_of(RECORD).numbers["effect.mean"]
    witness.say(StageMetric(stage=VALIDATION, name="effect.mean", value=said.value))
    assert lies_in(witness) == ()  # the same again is no contradiction
    witness.say(StageMetric(stage=VALIDATION, name="effect.mean", value=said.value + 1e-12))
    lies = lies_in(witness)
    assert len(lies) == 1
    assert lies[0].startswith("effect.mean: no event said")
    assert lies[0].endswith("or not always the same")


def test_a_node_that_was_tried_and_left_out_is_found(witness_of: WitnessOf) -> None:
    witness = witness_of(RECORD)
    witness.say(NodeCompleted(stage="Stage_2", node="Stage_2/99", buggy=False, seconds=1.0, metric=0.99))
    assert lies_in(witness) == ("node Stage_2/99 was tried, and the paper does not count it",)


def test_a_node_that_failed_and_is_told_as_a_good_one_is_found(witness_of: WitnessOf) -> None:
    node = next(node for stage in RECORD.stages for node in stage.nodes if node.buggy)

    def hide(numbers: Numbers) -> None:
        old = numbers.numbers["nodes.buggy"]
        left = tuple(source for source in old.source if source.about != node.id)
        numbers.numbers["nodes.buggy"] = replace(old, source=left, value=len(left), text=str(len(left)))

    lies = lies_in(witness_of(RECORD), numbers=hide)
    assert lies == (f"node {node.id} was buggy, and the paper does not count it as such",)


def test_a_choice_that_was_off_and_is_told_to_be_on_is_found(witness_of: WitnessOf) -> None:
    def turn_on(numbers: Numbers) -> None:
        quote = next(each for each in numbers.quotes.values() if each.said == "off")
        numbers.quotes[quote.key] = replace(quote, said="on", text="on")

    lies = lies_in(witness_of(RECORD), numbers=turn_on)
    assert len(lies) == 1
    assert "params.residual" in lies[0]


def test_a_failure_that_is_counted_as_a_success_is_found(witness_of: WitnessOf) -> None:
    def hide(numbers: Numbers) -> None:
        old = numbers.numbers["nodes.buggy"]
        assert old.source, "some node of the record failed"
        count = len(old.source) - 1
        numbers.numbers[old.key] = replace(old, value=float(count), text=str(count), source=old.source[1:])

    hidden = numbers_of(RECORD).numbers["nodes.buggy"].source[0].about
    lies = lies_in(witness_of(RECORD), numbers=hide)
    assert lies == (f"node {hidden} was buggy, and the paper does not count it as such",)


def test_a_flag_that_is_quoted_the_other_way_round_is_found(witness_of: WitnessOf) -> None:
    keys = {quote.key for quote in numbers_of(RECORD).quotes.values() if quote.said == "off"}
    assert keys

    def turn(numbers: Numbers) -> None:
        for key in keys:
            numbers.quotes[key] = replace(numbers.quotes[key], said="on", text="on")

    lies = lies_in(witness_of(RECORD), numbers=turn)
    assert {lie.partition(" ")[0] for lie in lies} == keys


def test_a_run_that_said_nothing_supports_no_number(witness_of: WitnessOf) -> None:
    numbers = numbers_of(RECORD)
    lies = trace(source_of(RECORD, numbers), numbers, witness_of(RECORD, [])).untraced
    assert len(lies) == 50
    assert all("no event said" in lie or "was not said so" in lie for lie in lies)


def test_each_fact_that_is_left_unsaid_is_missed(witness_of: WitnessOf) -> None:
    numbers = numbers_of(RECORD)
    tex = source_of(RECORD, numbers)
    facts = facts_of(RECORD)
    for left_out in [fact for fact in facts if isinstance(fact, StageMetric)][::5]:
        witness = witness_of(RECORD, [fact for fact in facts if fact != left_out])
        assert trace(tex, numbers, witness).untraced, left_out


@pytest.mark.parametrize(
    "tex",
    [
        "",
        "{",
        "}",
        "\\",
        "\\val",
        "\\val{",
        "\\val{a",
        "\\val{a}{",
        "\\said{",
        "\\begin{tabular}[",
        "\\begin[[{x}",
        "{{{}",
    ],
)
def test_a_source_that_is_no_latex_is_read_to_its_end(tex: str, witness_of: WitnessOf) -> None:
    trace(tex, numbers_of(RECORD), witness_of(RECORD))
