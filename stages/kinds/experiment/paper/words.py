"""The words of a paper: the texts of the built-in author, and the check of any author's words; pure.

Law: no number is typed here. Measured numbers, names and foreign texts are references to `Numbers`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from stages.kinds.experiment.paper.digits import typed_numbers
from stages.kinds.experiment.record.numbers import (
    REFERENCE,
    Numbers,
    claim_key,
    measure_of,
    metric_text,
    p_text,
    stage_key,
)
from stages.kinds.experiment.record.prose import SECTIONS, Prose
from stages.kinds.experiment.record.record import Record, StageRecord, Verdicts
from stages.kinds.experiment.statistics.estimate import CONFIDENCE, POWER
from stages.kinds.experiment.statistics.guards import TIME
from stages.kinds.experiment.statistics.region import Region
from stages.kinds.experiment.statistics.validation import FEWER, Judgement
from stages.kinds.experiment.tree import UNVARIED

AUTHOR: Final = "podfleet’s built-in author"
PARAGRAPH_MAX: Final = 2_500
SECTION_MAX: Final = 6_000  # characters of one section
PARAGRAPHS_MAX: Final = 12
PROBLEMS_MAX: Final = 40
CITED_MAX: Final = 12
BEYOND: Final = " from the margin"  # where an effect is seen

_WORK: Final = re.compile(r"work\.([0-9]{1,4})")


def verdict_line(verdicts: Verdicts) -> str:
    """Return the conclusion with the numbers it rests on as plain text, for logs and summaries."""
    if len(verdicts.judgements) == 1:
        return _line_of(verdicts.judgement)
    lines = (f"{each.conclusion.capitalize()}: {_line_of(each)}" for each in verdicts.judgements)
    return f"{len(verdicts.judgements)} claims, together {verdicts.conclusion}. {' '.join(lines)}"


def _line_of(judgement: Judgement) -> str:
    metric, interval, plan = judgement.plan.metric, judgement.interval, judgement.plan
    if interval is None:
        return f"{judgement.conclusion.capitalize()}: {judgement.reason}."
    units = sum(pair.difference is not None for pair in judgement.pairs)
    mean, low, high = (
        metric_text(value, metric.decimals, signed=True)
        for value in (interval.mean, interval.low, interval.high)
    )
    rows = judgement.in_test_rows
    moved = "" if rows is None else f", which is {metric_text(rows, 1, signed=True)} of these rows"
    chance = ""
    if interval.p_value is not None and interval.seen is not None:
        seen = f"{metric_text(interval.seen, metric.decimals)}{BEYOND if plan.region.has_margin else ''}"
        chance = f" (p = {p_text(interval.p_value)}{_corrected(judgement)}; an effect of {seen} would be shown in {POWER:.0%} of such runs)"
    fewer = f" ({FEWER})" if plan.units < plan.wanted else ""
    beside = ", beside a baseline that the run wrote itself" if judgement.conclusion == "supported" else ""
    return (
        f"Over {units} units{fewer}, each with a split of its own and {plan.test_rows} test rows, the "
        f"{measure_of(metric)} changed by {mean} on average{moved}, with a {CONFIDENCE:.0%} confidence interval from "
        f"{low} to {high}{chance}: {judgement.reason}{beside}."
    )


def _corrected(judgement: Judgement) -> str:
    """Return what the p-value is among those of several claims, where there are any."""
    if judgement.p_corrected is None:
        return ""
    of = "of its opposite " if judgement.conclusion == "contradicted" else ""
    return f", {of}{p_text(judgement.p_corrected)} as one of several claims"


def verdict_words(record: Record, numbers: Numbers) -> str:
    """Return the result of the measurement in words, with references, and whether it is a replication."""
    verdicts = record.verdicts
    are_several = len(verdicts.judgements) > 1
    parts = [
        _measured_words(each, claim_key(place), numbers, are_several=are_several)
        for place, each in enumerate(verdicts.judgements, start=1)
    ]
    if are_several:
        parts.append(
            f"All together the claim is {verdicts.conclusion}. It is supported where each of its parts is, and "
            "contradicted where one is; what is concluded of each is corrected for their number (Holm)."
        )
    if verdicts.replication is not None:
        parts.append(verdicts.replication.sentence(verdicts.conclusion, with_name=False))
    return " ".join(parts)


def use_words(record: Record) -> str:
    """Return in words, with references, which verdict on these rows it is, and what it is worth beside the others."""
    use = record.verdicts.use
    keys = {name: f"{{use.{name}}}" for name in ("number", "earlier", "factor")}
    return "" if use is None else use.sentence(keys | {"title": "{data}", "beside": "{use.p_beside}"})


def _measured_words(judgement: Judgement, top: str, numbers: Numbers, *, are_several: bool) -> str:
    if judgement.interval is None:
        return (
            "{units.measured} of {units.registered} registered units gave a result; nothing can be concluded, "
            f"for {judgement.reason}."
        )
    name = judgement.plan.metric.name
    means = (f"mean.{name}.baseline", f"mean.{name}.intervention")
    moved = f", from {{{means[0]}}} to {{{means[1]}}}" if all(each in numbers for each in means) else ""
    rows = (
        f" That is {{{top}effect.in_test_rows}} of these rows."
        if f"{top}effect.in_test_rows" in numbers
        else ""
    )
    p_value = f" (p = {{{top}effect.p_value}})" if f"{top}effect.p_value" in numbers else ""
    if f"{top}effect.p_corrected" in numbers:
        end = "its opposite" if judgement.conclusion == "contradicted" else "the claim"
        p_value = (
            f"{p_value[:-1]}; as one of several claims the p-value of {end} is {{{top}effect.p_corrected}})"
        )
    fewer = f" ({FEWER})" if judgement.plan.units < judgement.plan.wanted else ""
    what = f"The claim about the {{{top}measure}}" if are_several else "The claim"
    return (
        f"Over {{units.measured}} units{fewer}, each judged by {{units.test_rows}} rows, the {{{top}measure}} changed by {{{top}effect.mean}} on average{moved}; the "
        f"{{confidence}} confidence interval of the change goes from {{{top}effect.low}} to {{{top}effect.high}}{p_value}."
        f"{rows} {what} is {judgement.conclusion}: {judgement.reason}."
    )


def write_words(record: Record, numbers: Numbers) -> Prose:
    """Return the paper's words as the built-in author puts them."""
    cited = tuple(range(min(len(record.works), CITED_MAX)))
    sections: dict[str, Sequence[str]] = {
        "abstract": _abstract(record, numbers),
        "introduction": _introduction(record),
        "related_work": _related_work(cited),
        "method": _method(record, numbers),
        "results": [_stage_words(record, stage, numbers) for stage in record.stages[:3]],
        "ablations": _ablations(record, numbers),
        "validation": _validation(record, numbers),
        "limitations": _limitations(record),
        "conclusion": _conclusion(record),
    }
    return Prose(sections=sections, author=AUTHOR, cited=cited)


def _abstract(record: Record, numbers: Numbers) -> list[str]:
    return [
        "We test a claim: {claim} A best-first search over {nodes.tried} programs drafts and tunes a baseline without the "
        "intervention, and then applies the intervention to it, looking at validation data only. The best program of "
        "each kind is trained again in {units.registered} registered units, each "
        f"{_unit(record)}, and measured on its test rows. {verdict_words(record, numbers)}"
    ]


def _unit(record: Record) -> str:
    """Return what a unit is, in few words."""
    data = record.claim.data
    if data.time:
        return "a window that rolls along {split.key}, whose latest rows judge"
    return f"a random split of {'whole groups of {split.key}' if data.group else 'the data'} with a seed of its own"


def _unit_rule(record: Record) -> str:
    data = record.claim.data
    if data.time:
        return (
            "a unit is a window of the {units.rows} rows in the order of {split.key}. Both programs learn from its "
            "first rows, and {units.test_rows} later ones judge, which judge no other unit. A result is of the "
            "time that the table covers: whether another time is like it is not known."
        )
    if record.verdicts.use is not None and record.verdicts.use.part == "reserve":
        return (
            "a unit is a random split of the rows outside of the reserve with a seed that the search never used, "
            "judged by {units.test_rows} rows drawn from the {units.rows} of the reserve."
        )
    drawn = "by whole groups of {split.key} of all" if data.group else "of all"
    about = "about " if data.group else ""
    return (
        f"a unit is a random split {drawn} {{units.rows}} rows with a seed that the search never used, of which "
        f"{about}{{units.test_rows}} judge."
    )


def _introduction(record: Record) -> list[str]:
    texts = [
        f"Read as a measurable claim, the idea says: {{claim}} {_rule(record)}",
    ]
    if record.claim.notes:
        texts.append(" ".join(f"{{note_{place}}}" for place, _ in enumerate(record.claim.notes, start=1)))
    if record.claim.selection.name != record.claim.metric.name:
        texts.append(
            "A search for the best {metric} alone would end with a useless model, so programs are selected by validation "
            "{selection}; the verdict is about the {metric}."
        )
    return texts


def _rule(record: Record) -> str:
    """Return when the claim is supported, and when it is contradicted."""
    effects, regions = record.claim.effects, [each.plan.region for each in record.verdicts.judgements]
    if not any(each.has_margin for each in regions):
        return (
            "It is supported if the {confidence} confidence interval of the mean difference (intervention minus baseline) "
            "lies wholly on the claimed side of zero, and contradicted if it lies wholly on the other side. An interval "
            "that includes zero is inconclusive: it shows neither an effect nor that there is none. Only the direction is "
            "tested."
        )
    ends = []
    for place, region in enumerate(regions, start=1):
        bounds = [
            f"{word} {{{claim_key(place)}region.{word}}}" if end else f"{word} zero"
            for word, end in (("above", region.low), ("below", region.high))
            if math.isfinite(end)
        ]
        ends.append(f"{' and '.join(bounds)} for the {{{claim_key(place)}measure}}")
    default = (
        " Where the idea names no margin, it is the smallest effect of interest of the measure, the same in every run."
        if any(each.is_default for each in effects)
        else ""
    )
    return (
        "It is supported if the {confidence} confidence interval of the mean difference (intervention minus baseline) lies "
        f"wholly {', and '.join(ends)}; it is contradicted if the interval lies wholly outside. An interval with both "
        f"kinds of effects is inconclusive.{default}"
    )


def _related_work(cited: Sequence[int]) -> list[str]:
    if not cited:
        return [
            "No look-up of earlier publications gave a result for this run, so nothing is cited. Whether the claim is new "
            "was not examined."
        ]
    marks = ", ".join(f"{{work.{place}}}" for place in cited)
    return [
        "A look-up of earlier publications with the words of the claim returned {works.found}; the first ones are "
        f"listed as references: {marks}. They were not read in full, no number of theirs is used here, and whether the claim "
        "is new was not examined."
    ]


def _method(record: Record, numbers: Numbers) -> list[str]:
    data = record.claim.data
    origin = "from a file that the user named" if data.location else "which ships with scikit-learn"
    kind = "{data.outputs} classes" if data.task == "classification" else "a real value to predict"
    sizes = [
        f"{{split.{part}}} {word} examples"
        for part, word in (("train", "training"), ("validation", "validation"), ("test", "test"))
        if f"split.{part}" in numbers
    ]
    split = (
        f" The seed of the run splits it into {', '.join(sizes[:-1])} and {sizes[-1]}."
        if len(sizes) > 1
        else ""
    )
    notes = "".join(f" {{data.note_{place}}}" for place, _ in enumerate(record.setting.notes, start=1))
    texts = [
        f"Data. We use the data set {{data}}, {origin}, with {{data.features}} features and {kind}.{notes}{split} "
        "The targets of these test data stay sealed in the search; the units of the validation split all rows anew.",
        "Search. The search goes best-first through {stages.searched} stages: the first drafts implementations, the second "
        "tunes the baseline, the third puts the intervention behind a switch of the tuned program and tunes it with that on, as "
        "often as the baseline was tried, and the fourth varies other choices "
        "with and without it. Each node of its tree is one whole program, run in a sandbox (isolation: {setting.isolation}) "
        "and trained once; its metric is the {selection} on validation data. A program that fails is marked buggy, and a "
        "repair may be tried. The research was done by {setting.researcher}.",
    ]
    if any(stage.finalists for stage in record.stages):
        texts.append(
            "Re-evaluation. At the end of a stage its best nodes, the finalists, are trained again from {setting.repeats} "
            "seeds of their own, still on validation data. The one with the best mean is chosen, and the next stage starts "
            "from it; the second stage keeps the node that it was handed unless that is surpassed by more than two standard "
            "errors of the difference. The table of finalists shows mean and standard error."
        )
    texts.append(
        "Comparison. The intervention is: {subject}. Both arms are one program, the one that the third stage chose (node "
        "{intervention.id}): the baseline is its run with the switch off, and the finalists of that stage were compared by "
        "the mean of both runs. Both are trained again in {units.registered} units, which were registered with estimator and test before the third "
        f"stage began: {_unit_rule(record)} The estimate is the mean of the paired differences. Units share rows, so its variance is "
        "corrected as Nadeau and Bengio propose; its interval is Student’s, widened for skewness by a modified t in the "
        "manner of Johnson and Hall, at a level of {level} for each side, which simulations have calibrated. "
        f"{_looks(record)}A unit in which "
        "a program fails counts with the worst score, and one that the machine lost is run again."
        f"{_timing(record)}"
    )
    return texts


def _looks(record: Record) -> str:
    """Return when the claim was judged, where that was more than once."""
    looks = record.verdicts.judgement.plan.looks
    if not looks:
        return ""
    places = range(1, len(looks) + 1)
    units = ", ".join(f"{{look_{place}.units}}" for place in places)
    levels = ", ".join(f"{{look_{place}.level}}" for place in places)
    return (
        f"The claim is judged after {units} units, at levels of {levels} a side, until it is decided: all looks together "
        "err no more often than one (a group-sequential rule, after Pocock, and Lan and DeMets). "
    )


def _timing(record: Record) -> str:
    """Return how time is measured, where the claim is about it."""
    if not any(each.metric == TIME for each in record.claim.effects):
        return ""
    return (
        " The claim is about time: one program ran at a time, and the arms took turns to be the first of a unit. "
        "Other work on the machine is not excluded; the log of the run has its load."
    )


def _stage_words(record: Record, stage: StageRecord, numbers: Numbers) -> str:
    """Return what a stage tried, why it ended, and what it chose."""
    key = stage_key(stage)
    buggy = f", {{{key}.buggy}} of them buggy" if numbers.numbers[f"{key}.buggy"].value else ""
    noun = "node" if len(stage.nodes) == 1 else "nodes"
    values = [f"{{{key}.best}} in its first training"] if f"{key}.best" in numbers else []
    final = next(
        (place for place, each in enumerate(stage.finalists, start=1) if each.node == stage.best.id), None
    )
    if final is not None and f"{key}.finalist_{final}.mean" in numbers:
        values.append(f"{{{key}.finalist_{final}.mean}} on average over its seeds as a finalist")
    reached = f" Its validation {{selection}} was {' and '.join(values)}." if values else ""
    use = "" if stage in record.stages[:3] else " It takes no part in the verdict."
    return (
        f"{{{key}.name}} tried {{{key}.nodes}} {noun} of at most {{{key}.limit}}{buggy}; it ended with the reason: "
        f"{{{key}.ended}}. It chose {{{key}.chosen}}: {{{key}.reason}}.{reached}{use}"
    )


def _ablations(record: Record, numbers: Numbers) -> list[str]:
    texts = [_stage_words(record, stage, numbers) for stage in record.stages[3:]]
    complete = numbers.numbers["ablations.complete"].value
    if complete:
        noun = "pair" if complete == 1 else "pairs"
        texts.append(
            f"In {{ablations.better}} of {{ablations.complete}} complete {noun} the validation {{selection}} was better "
            "with the intervention than without it. Each value is one training from one seed, so small differences may be "
            "chance. These numbers explain; they take no part in the verdict."
        )
        if all(node.condition == UNVARIED for stage in record.stages[3:] for node in stage.nodes):
            texts.append(
                "Only the chosen program was run again, with and without the intervention: the limit of that stage left no "
                "node to vary another choice, so nothing was ablated."
            )
    else:
        texts.append(
            "No condition was measured both with and without the intervention, so the ablations say nothing about it."
        )
    return texts


def _seen(region: Region, top: str, numbers: Numbers) -> str:
    """Return which effect on a measure would have been seen."""
    if f"{top}effect.seen" not in numbers:
        return ""
    beyond = BEYOND if region.has_margin else ""
    return (
        f" An effect of {{{top}effect.seen}}{beyond} on the {{{top}measure}} would have been shown in {{power}} of such "
        "validations; a smaller one is likely missed."
    )


def _validation(record: Record, numbers: Numbers) -> list[str]:
    judgements = record.verdicts.judgements
    texts = [
        verdict_words(record, numbers),
        "In the intervention’s program {units.failed.intervention} of {units.registered} units failed, in the baseline’s "
        "{units.failed.baseline}. Without a failure in all of them, a rate of failures up to {failures.not_excluded} cannot be "
        "excluded."
        + (
            "".join(
                _seen(each.plan.region, claim_key(place), numbers)
                for place, each in enumerate(judgements, start=1)
            )
        ),
    ]
    if use := use_words(record):
        texts.append(use)
    if any(each.metric.noisy for each in record.claim.effects):
        texts.append(
            "Seconds depend on the machine and its load: unlike the other numbers here, they do not repeat exactly with "
            "the same seed."
        )
    return texts


def _limitations(record: Record) -> list[str]:
    notes = (
        "" if record.works else " No related work was found, so nothing is said about what is already known."
    )
    return [
        "One data set ({data}) was used; the interval covers the chance in training and in which of its rows are learnt from "
        "and judge, and not that in the choice of data. The programs were chosen on a split of the same rows. The search was bounded ({nodes.tried} nodes), so a better baseline or a "
        "better form of the intervention may exist. Both arms share all choices but the intervention; were each tuned alone, the difference might be another one. Tests at this "
        "level of confidence find some differences where there are none, so a result here is a reason to look again and "
        f"no proof.{notes}"
    ]


def _conclusion(record: Record) -> list[str]:
    verdicts = record.verdicts
    changes = ", and ".join(
        f"the {{{claim_key(place)}measure}} changed by {{{claim_key(place)}effect.mean}} on average"
        for place, each in enumerate(verdicts.judgements, start=1)
        if each.interval is not None
    )
    return [
        f"Under the conditions described, the claim is {verdicts.conclusion}: {{claim}} "
        + {
            "supported": f"{_upper(changes)}. Other data and larger models remain to be tried.",
            "contradicted": f"{_upper(changes)}, against the claim.",
            "inconclusive": f"This measurement decides nothing, for {verdicts.reason}. It does not show that there is no "
            "effect.",
        }[verdicts.conclusion]
    ]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def problems_of(prose: Prose, numbers: Numbers, works: int = 0) -> list[str]:
    """Return what is wrong with an author's words, each in a sentence that helps to mend it; empty: nothing.

    `works` is how many publications may be cited as `{work.0}`, `{work.1}`, ...
    """
    return list(_problems(prose, numbers, works))[:PROBLEMS_MAX]


def _problems(prose: Prose, numbers: Numbers, works: int) -> Iterator[str]:
    yield from (
        f"there is no section {name!r}; known: {', '.join(SECTIONS)}"
        for name in prose.sections
        if name not in SECTIONS
    )
    yield from (
        f"`cited` names the work {place}, and there are {works}, counted from 0"
        for place in prose.cited
        if not 0 <= place < works
    )
    for name in SECTIONS:
        yield from _section_problems(name, prose.sections.get(name, ()), numbers, works)


def _section_problems(name: str, paragraphs: Sequence[str], numbers: Numbers, works: int) -> Iterator[str]:
    if not any(paragraph.strip() for paragraph in paragraphs):
        yield f"{name}: the section is empty"
    if len(paragraphs) > PARAGRAPHS_MAX:
        yield f"{name}: {len(paragraphs)} paragraphs; at most {PARAGRAPHS_MAX}"
    total = sum(len(paragraph) for paragraph in paragraphs)
    if total > SECTION_MAX:
        yield f"{name}: {total} characters; at most {SECTION_MAX}"
    for place, paragraph in enumerate(paragraphs, start=1):
        if len(paragraph) > PARAGRAPH_MAX:
            yield f"{name}, paragraph {place}: {len(paragraph)} characters; at most {PARAGRAPH_MAX}"
        for match in REFERENCE.finditer(paragraph):
            if not is_known(match[1], numbers, works):
                yield f"{name}, paragraph {place}: nothing is called {match[0]}"
        for typed in typed_numbers(REFERENCE.sub(" ", paragraph)):
            yield f"{name}, paragraph {place}: the number {typed!r} is typed; refer to a measured number by its key, or say it without digits"


def is_known(key: str, numbers: Numbers, works: int) -> bool:
    """Return whether a reference leads to a number, a quoted text, or a work."""
    if key in numbers:
        return True
    match = _WORK.fullmatch(key)
    return match is not None and int(match[1]) < works
