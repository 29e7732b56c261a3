"""The words of a paper: the texts of the built-in author, and the check of any author's words; pure.

Law: no number is typed here. Measured numbers, names and foreign texts are references to `Numbers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from events.kinds.space.claim import Claim
from stages.experiment.paper.digits import typed_numbers
from stages.experiment.record.numbers import REFERENCE, Numbers, measure_of, metric_text, stage_key
from stages.experiment.record.prose import SECTIONS, Prose
from stages.experiment.record.record import Record, StageRecord
from stages.experiment.statistics.validation import CAUGHT, CONFIDENCE, Judgement

AUTHOR: Final = "podfleet’s built-in author"
PARAGRAPH_MAX: Final = 2_500
SECTION_MAX: Final = 6_000  # characters of one section
PARAGRAPHS_MAX: Final = 12
PROBLEMS_MAX: Final = 40
CITED_MAX: Final = 12

_WORK: Final = re.compile(r"work\.([0-9]{1,4})")


def verdict_line(claim: Claim, judgement: Judgement) -> str:
    """Return the verdict with the numbers it rests on as plain text, for logs and summaries."""
    if judgement.interval is None:
        return f"The claim cannot be upheld: {judgement.reason}."
    metric, interval = claim.metric, judgement.interval
    seeds = sum(pair.difference is not None for pair in judgement.pairs)
    mean, low, high = (
        metric_text(value, metric.decimals, signed=True)
        for value in (interval.mean, interval.low, interval.high)
    )
    beside = ", beside a baseline that the run wrote itself" if judgement.verdict == "pass" else ""
    return (
        f"Over {seeds} fresh seeds the {measure_of(claim)} changed by {mean} on average, with a {CONFIDENCE:.0%} "
        f"confidence interval from {low} to {high}: {judgement.reason}{beside}."
    )


def outcome(record: Record) -> str:
    """Return the verdict in one word."""
    return "Supported" if record.verdicts.judgement.verdict == "pass" else "Refuted"


def verdict_words(record: Record, numbers: Numbers) -> str:
    """Return the result of the measurement in words, with references, and whether it is a replication."""
    sentence, replication = _measured_words(record, numbers), record.verdicts.replication
    if replication is None:
        return sentence
    return f"{sentence} {replication.sentence(record.verdicts.judgement.verdict, with_name=False)}"


def _measured_words(record: Record, numbers: Numbers) -> str:
    judgement = record.verdicts.judgement
    lost = "{seeds.lost} of {seeds.fresh} pairs of trainings gave no result"
    if judgement.interval is None:
        why = f": {CAUGHT}" if judgement.reason == CAUGHT else ""
        return f"{lost}, and too few are left for an interval, so the claim cannot be upheld{why}."
    name = record.claim.metric.name
    means = (f"mean.{name}.baseline", f"mean.{name}.intervention")
    moved = f", from {{{means[0]}}} to {{{means[1]}}}" if all(each in numbers for each in means) else ""
    return (
        f"Over {{seeds.measured}} fresh seeds the {{measure}} changed by {{effect.mean}} on average{moved}; the {{confidence}} "
        "confidence interval of the change goes from {effect.low} to {effect.high}. "
        + {
            "caught": f"But {CAUGHT}, so the claim cannot be upheld.",
            "lost": f"But {lost}, so the claim cannot be upheld.",
            "claimed": "The interval lies wholly on the claimed side of zero.",
            "doubted": f"The interval lies wholly on the claimed side of zero, but {judgement.reason}.",
            "opposite": "The interval lies wholly on the side opposite to the claim.",
            "none": "The interval includes zero, so no effect was shown.",
        }[_reading(record)]
    )


def _reading(record: Record) -> Literal["caught", "lost", "claimed", "doubted", "opposite", "none"]:
    """Return what the measurement means for the claim."""
    interval = record.verdicts.judgement.interval
    if record.verdicts.judgement.reason == CAUGHT:
        return "caught"
    if interval is None or any(pair.difference is None for pair in record.verdicts.judgement.pairs):
        return "lost"
    up = record.claim.direction == "increase"
    if interval.low > 0 if up else interval.high < 0:
        return "claimed" if record.verdicts.judgement.verdict == "pass" else "doubted"
    return "opposite" if (interval.high < 0 if up else interval.low > 0) else "none"


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
        "each kind is trained again from {seeds.fresh} fresh seeds and measured on test data that nothing had "
        f"seen before. {verdict_words(record, numbers)} The claim is {outcome(record).lower()}."
    ]


def _introduction(record: Record) -> list[str]:
    texts = [
        "Read as a measurable claim, the idea says: {claim} It counts as supported only if the {confidence} confidence "
        "interval of the mean difference (intervention minus baseline) lies wholly on the claimed side of zero. An interval "
        "that includes zero refutes it, and so does one on the other side. Only the direction is tested.",
    ]
    if record.claim.notes:
        texts.append(" ".join(f"{{note_{place}}}" for place, _ in enumerate(record.claim.notes, start=1)))
    if record.claim.selection.name != record.claim.metric.name:
        texts.append(
            "A search for the best {metric} alone would end with a useless model, so programs are selected by validation "
            "{selection}; the verdict is about the {metric}."
        )
    return texts


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
        "The targets of the test data stay sealed until the search is over.",
        "Search. The search goes best-first through {stages.searched} stages: the first drafts implementations, the second "
        "tunes the baseline, the third applies the intervention to the tuned baseline, and the fourth varies other choices "
        "with and without it. Each node of its tree is one whole program, run in a sandbox (isolation: {setting.isolation}) "
        "and trained once; its metric is the {selection} on validation data. A program that fails is marked buggy, and a "
        "repair may be tried. The research was done by {setting.researcher}.",
    ]
    if any(stage.finalists for stage in record.stages):
        texts.append(
            "Re-evaluation. At the end of a stage its best nodes, the finalists, are trained again from {setting.repeats} "
            "seeds of their own, still on validation data. The one with the best mean is chosen, and the next stage starts "
            "from it; the table of finalists shows mean and standard error."
        )
    texts.append(
        "Comparison. The intervention is: {subject}. The baseline is the program that the second stage chose (node "
        "{baseline.id}); the program with the intervention is the one that the third stage chose (node {intervention.id}). "
        "Both are trained again from {seeds.fresh} seeds that the search never used, in pairs of equal seeds, and measured "
        "on test data. The interval is the two-sided interval of Student’s t for the mean of the paired differences, which "
        "takes them as roughly normal."
        + (
            " To their variance over seeds is added that over the rows that judge, by a jackknife over {effect.groups} "
            "groups of rows, with the degrees of freedom of Satterthwaite."
            if "effect.groups" in numbers
            else ""
        )
    )
    return texts


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
    else:
        texts.append(
            "No condition was measured both with and without the intervention, so the ablations say nothing about it."
        )
    return texts


def _validation(record: Record, numbers: Numbers) -> list[str]:
    texts = [
        f"{verdict_words(record, numbers)} By the rule stated in the introduction the claim is {outcome(record).lower()}."
    ]
    if record.claim.metric.noisy:
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
        "One data set ({data}) and one split were used; the interval covers the chance in initial weights, order and "
        "augmentation and that in the rows that judge, and not that in the rows to learn from or the choice of data. The search was bounded ({nodes.tried} nodes), so a better baseline or a "
        "better form of the intervention may exist. The baseline comes from the nodes of the first two stages and the form "
        "of the intervention from those of the third, so the two did not get the same number of trials; a baseline that is worse than it need be makes any intervention look better. Tests at this "
        "level of confidence find some differences where there are none, so a result here is a reason to look again and "
        f"no proof.{notes}"
    ]


def _conclusion(record: Record) -> list[str]:
    found = f"Under the conditions described, the claim is {outcome(record).lower()}: {{claim}}"
    return [
        f"{found} "
        + {
            "claimed": "The mean change was {effect.mean}, and its interval excludes zero. Other data and larger models remain "
            "to be tried.",
            "doubted": "The mean change was {effect.mean}, and its interval excludes zero, but "
            f"{record.verdicts.judgement.reason}.",
            "caught": f"It could not be upheld: {CAUGHT}.",
            "opposite": "The {measure} moved the other way, by {effect.mean} on average, and the interval excludes zero.",
            "none": "In this form and on these data the intervention does not move the {measure} by an amount that this "
            "measurement could tell from chance. That does not show that it has no effect at all.",
            "lost": "It could not be upheld, because {seeds.lost} of {seeds.fresh} pairs of trainings gave no result. What a "
            "measurement without losses would show is left open.",
        }[_reading(record)]
    ]


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
