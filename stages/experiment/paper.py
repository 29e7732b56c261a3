"""Writes the paper: its words and tables, from the record of the run alone.

Law: no number is typed here. What a person wrote enters `paper.json` as text, which the Typst
source shows and never reads as markup.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from stages.experiment.claim import Claim
from stages.experiment.metrics import METRICS, Metric
from stages.experiment.plots import Picture, ablation_pairs
from stages.experiment.recipe import Recipe, described, shown
from stages.experiment.record import Record, StageRecord
from stages.experiment.renderer import render
from stages.experiment.researcher import recipe_of
from stages.experiment.tree import Node
from stages.experiment.validation import Judgement

IDEA_MAX: Final = 4_000  # characters of the idea that the paper shows
TITLE_MAX: Final = 180
WORD_MAX: Final = 40  # longer words get places where a line may break
ERROR_MAX: Final = 120

Sheet = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Paper:
    """The written paper: its title, its PDF, and the source files that make it."""

    title: str
    pdf: Path
    source: Path
    data: Path


def write_paper(record: Record, pictures: Sequence[Picture], folder: Path) -> Paper:
    """Write the paper's source into `folder`, where the pictures lie, and render it."""
    source, data, pdf = folder / "paper.typ", folder / "paper.json", folder / "paper.pdf"
    with as_file(files("stages.experiment") / "paper.typ") as template:
        shutil.copyfile(template, source)
    content = paper_content(record, pictures, folder)
    data.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    render(source, pdf)
    return Paper(content["title"], pdf, source, data)


def paper_content(record: Record, pictures: Sequence[Picture], folder: Path) -> dict[str, Any]:
    """Return every text, table and figure of the paper."""
    supported = record.verdicts.judgement.verdict == "pass"
    return {
        "title": _title(record),
        "byline": f"Run {record.setting.run_id}, attempt {record.setting.attempt}, seed {record.setting.seed}",
        "footer": f"Written by podfleet from the measurements of run {record.setting.run_id}",
        "supported": supported,
        "verdict_label": "Supported." if supported else "Refuted.",
        "verdict_line": verdict_line(record.claim, record.verdicts.judgement),
        "abstract": _abstract(record),
        "idea": _shown_text(record.idea.short_hypothesis, IDEA_MAX),
        "hypothesis": _hypothesis(record),
        "method": _method(record),
        "results": _results(record),
        "ablations": _ablations(record),
        "validation": _validation(record),
        "limitations": _limitations(record),
        "reproducibility": _reproducibility(record),
        "tables": _tables(record),
        "figures": {
            picture.name: {
                "path": picture.image.relative_to(folder).as_posix(),
                "caption": picture.caption,
            }
            for picture in pictures
        },
    }


def verdict_line(claim: Claim, judgement: Judgement) -> str:
    """Return the verdict with the numbers it rests on, as one or two sentences."""
    if judgement.interval is None:
        return f"The claim cannot be upheld: {judgement.reason}."
    metric, interval = claim.metric, judgement.interval
    return (
        f"Over {len(judgement.pairs)} fresh seeds the test {metric.title} changed by "
        f"{_signed(interval.mean, metric)} on average, with a 95 % confidence interval from "
        f"{_signed(interval.low, metric)} to {_signed(interval.high, metric)}: {judgement.reason}."
    )


def number(value: float | None, metric: Metric) -> str:
    """Return `value` with the decimals of its metric."""
    return "–" if value is None else f"{value:.{metric.decimals}f}"


def _signed(value: float | None, metric: Metric) -> str:
    """Return a difference with its sign."""
    return "–" if value is None else f"{value:+.{metric.decimals}f}".replace("-", "\N{MINUS SIGN}")


def _shown_text(text: str, limit: int) -> str:
    """Return what a person wrote, printable, bounded, and breakable into lines."""
    clean = "".join(char if char.isprintable() else " " for char in text)
    clean = " ".join(clean.split())
    if len(clean) > limit:
        clean = f"{clean[:limit]} … (cut here; {len(clean)} characters in all)"
    return re.sub(rf"(\S{{{WORD_MAX}}})(?=\S)", "\\1\N{ZERO WIDTH SPACE}", clean)


def _title(record: Record) -> str:
    idea = record.idea
    first = re.split(r"(?<=[.?!])\s", idea.short_hypothesis.strip(), maxsplit=1)[0]
    return _shown_text(idea.title or idea.name.replace("_", " ") or first, TITLE_MAX)


def _data_name(record: Record) -> str:
    return record.claim.dataset.replace("_", " ")


def _nodes(stage: StageRecord) -> str:
    buggy = sum(node.buggy for node in stage.nodes)
    count = f"{len(stage.nodes)} node" + ("s" if len(stage.nodes) != 1 else "")
    return f"{count} ({buggy} buggy)" if buggy else count


def _abstract(record: Record) -> str:
    tried = sum(len(stage.nodes) for stage in record.stages)
    claim = record.claim
    outcome = (
        "The claim is supported." if record.verdicts.judgement.verdict == "pass" else "The claim is refuted."
    )
    return (
        f"We test the claim: “{claim.sentence}” A best-first search over {tried} small PyTorch models first tunes a "
        f"baseline without the intervention, then applies the intervention in several strengths, looking at validation "
        f"data only. The best model of each kind is then trained again from {len(record.verdicts.judgement.pairs)} "
        f"fresh seeds and measured once on test data. {verdict_line(record.claim, record.verdicts.judgement)} {outcome}"
    )


def _hypothesis(record: Record) -> list[str]:
    claim = record.claim
    texts = [
        f"Read as a measurable claim: {claim.sentence} It is taken as supported only if the 95 % confidence interval "
        f"of the mean difference (intervention minus baseline) on test data lies wholly on the claimed side of zero; "
        f"an interval that includes zero refutes it, as does one on the other side.",
    ]
    if claim.notes:
        texts.append(" ".join(claim.notes))
    if claim.selection.name != claim.metric.name:
        texts.append(
            f"A search for the best {claim.metric.title} alone would end with a useless model, so nodes are "
            f"selected by validation {claim.selection.title}; the verdict is about the {claim.metric.title}."
        )
    return texts


def _method(record: Record) -> list[dict[str, Any]]:
    setting, claim, split = record.setting, record.claim, record.setting.split
    kind = f"{setting.outputs} classes" if claim.task == "classification" else "one real value"
    scaling = (
        "All pixels are standardised together"
        if claim.dataset == "digits"
        else "Each feature is standardised"
    )
    seeds = len(record.verdicts.judgement.pairs)
    return [
        {
            "title": "Data",
            "texts": [
                f"The data set {_data_name(record)} of scikit-learn has {setting.features} features and {kind}. The "
                f"run's seed splits it into {split['train']} training, {split['validation']} validation and "
                f"{split['test']} test examples. {scaling} by the training examples' mean and deviation."
            ],
        },
        {
            "title": "Search",
            "texts": [
                f"Four stages search best-first: Stage 1 drafts implementations, Stage 2 tunes the baseline, Stage 3 "
                f"applies the intervention to the tuned baseline and changes nothing else, Stage 4 varies other "
                f"choices with and without it. Every node is trained {setting.repeats} times from seeds of its own; "
                f"its metric is the mean {claim.selection.title} on validation data. A node that diverges is marked "
                f"buggy, and its repair is tried."
            ],
        },
        {
            "title": "Verdict",
            "texts": [
                f"The tuned baseline (node {record.baseline.id}) and the best node with the intervention (node "
                f"{record.intervention.id}) are trained again from {seeds} seeds that the search never used, in pairs "
                f"of equal seeds, and measured on test data that nothing had seen before. The interval is Student's t "
                f"over the paired differences."
            ],
        },
    ]


def _results(record: Record) -> list[str]:
    metric = record.claim.selection
    texts = []
    for name in ("Stage_1", "Stage_2", "Stage_3"):
        stage = record.stage(name)
        texts.append(
            f"{name.replace('_', ' ')} tried {_nodes(stage)} of at most {stage.limit} and ended because {stage.ended}. "
            f"It handed on {stage.best.id} with a validation {metric.title} of {number(stage.best.metric, metric)}: "
            f"{stage.reason}."
        )
    return texts


def _ablations(record: Record) -> list[str]:
    metric = record.claim.selection
    stage = record.stage("Stage_4")
    pairs = [
        (without.metric, with_it.metric)
        for without, with_it in ablation_pairs(record).values()
        if without and with_it and without.metric is not None and with_it.metric is not None
    ]
    better = sum((two > one) if metric.higher_is_better else (two < one) for one, two in pairs)
    return [
        f"Stage 4 tried {_nodes(stage)} of at most {stage.limit}, starting from {record.intervention.id}. In {better} of "
        f"{len(pairs)} complete pairs the validation {metric.title} was better with the intervention than without it. "
        f"These numbers explain; they take no part in the verdict."
    ]


def _validation(record: Record) -> list[str]:
    claim, verdict = record.claim, record.verdicts.judgement.verdict
    plain = (
        "The hypothesis is supported by this measurement."
        if verdict == "pass"
        else "The hypothesis is refuted: this measurement does not support it."
    )
    texts = [f"{plain} {verdict_line(record.claim, record.verdicts.judgement)}"]
    if claim.metric.noisy:
        texts.append(
            "Seconds depend on the machine and its load: unlike every other number here, they do not repeat exactly "
            "with the same seed."
        )
    return texts


def _limitations(record: Record) -> list[str]:
    claim, setting = record.claim, record.setting
    return [
        f"One data set ({_data_name(record)}), one split and one family of small networks were used; the interval covers "
        f"the chance in initial weights, order and augmentation, and not the choice of data. The search was bounded "
        f"({sum(len(stage.nodes) for stage in record.stages)} nodes, {setting.epochs} epochs each), so a better baseline "
        f"or a better strength of the intervention may exist. Many tests at this level find one difference in twenty "
        f"where there is none. Intervention read from the text by words: {claim.intervention.title}."
    ]


def _reproducibility(record: Record) -> list[str]:
    return [
        f"Everything follows from the seed {record.setting.seed}: splits, order of proposals, initial weights. The same "
        f"seed gives the same numbers on the same machine and versions, except for seconds. All numbers are in "
        f"results.json, and each figure has its data beside it as CSV; this paper is paper.typ with paper.json."
    ]


def _tables(record: Record) -> dict[str, Sheet]:
    tables = {name: _stage_table(record, record.stage(name)) for name in ("Stage_1", "Stage_2", "Stage_3")}
    return tables | {
        "arms": _arms_table(record),
        "ablation": _ablation_table(record),
        "seeds": _seeds_table(record),
        "means": _means_table(record),
        "setting": _setting_table(record),
    }


def _sheet(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], wide: int) -> Sheet:
    """Return a table whose column `wide` holds words, while the ones after the first hold numbers."""
    places = range(len(header))
    return {
        "caption": caption,
        "header": list(header),
        "widths": ["wide" if place == wide else "auto" for place in places],
        "align": ["left" if place in (0, wide) else "right" for place in places],
        "rows": [list(row) for row in rows],
    }


def _stage_table(record: Record, stage: StageRecord) -> Sheet:
    metric = record.claim.selection
    rows = []
    for node in stage.nodes:
        plan = _shown_text(node.plan, IDEA_MAX)
        if node.buggy:
            plan = f"{plan} — buggy: {_shown_text(node.error or 'no reason given', ERROR_MAX)}"
        mark = "*" if node.id == stage.best.id else ""
        rows.append((mark + node.id.replace("_", " "), plan, mark + number(node.metric, metric)))
    title = stage.name.replace("_", " ")
    caption = f"{title}: what was tried, and the {metric.title} on validation data. Bold: handed on."
    return _sheet(caption, ("Node", "Plan", _head(metric)), rows, wide=1)


def _arms_table(record: Record) -> Sheet:
    one, other = recipe_of(record.baseline), recipe_of(record.intervention)
    plain = Recipe()
    names = [name for name in plain.params() if name in _ALWAYS or one.params()[name] != plain.params()[name]
             or other.params()[name] != plain.params()[name]]  # fmt: skip
    rows = []
    for name in names:
        mark = "*" if one.params()[name] != other.params()[name] else ""
        label = described({name: ""}).strip()
        rows.append((label, mark + shown(one.params()[name]), mark + shown(other.params()[name])))
    return _sheet(
        "The two recipes that the validation compares. Bold: what differs.",
        ("Choice", f"Baseline ({record.baseline.id})", f"Intervention ({record.intervention.id})"),
        rows,
        wide=0,
    )


_ALWAYS: Final = (
    "network",
    "width",
    "depth",
    "activation",
    "optimiser",
    "lr",
    "batch_size",
    "epochs",
    "schedule",
)


def _ablation_table(record: Record) -> Sheet:
    metric = record.claim.selection
    rows = []
    for condition, (without, with_it) in ablation_pairs(record).items():
        one, two = _metric(without), _metric(with_it)
        difference = two - one if one is not None and two is not None else None
        rows.append((condition, _cell(without, metric), _cell(with_it, metric), _signed(difference, metric)))
    return _sheet(
        f"Ablations: {metric.title} on validation data without and with the intervention.",
        ("Condition", "Without", "With", "Difference"),
        rows,
        wide=0,
    )


def _metric(node: Node | None) -> float | None:
    return node.metric if node is not None else None


def _cell(node: Node | None, metric: Metric) -> str:
    if node is None:
        return "not tried"
    return "buggy" if node.buggy else number(node.metric, metric)


def _seeds_table(record: Record) -> Sheet:
    metric, judgement = record.claim.metric, record.verdicts.judgement
    rows = [
        (
            str(pair.seed),
            number(pair.baseline, metric),
            number(pair.intervention, metric),
            _signed(pair.difference, metric),
        )
        for pair in judgement.pairs
    ]
    if judgement.interval is not None:
        mean = record.verdicts.means.get(metric.name)
        if mean is not None:
            one, two = mean
            middle = _signed(judgement.interval.mean, metric)
            rows.append(("*mean", f"*{number(one, metric)}", f"*{number(two, metric)}", f"*{middle}"))
        low, high = _signed(judgement.interval.low, metric), _signed(judgement.interval.high, metric)
        rows.append(("*95 % interval", "", "", f"*{low} to {high}"))
    return _sheet(
        f"The {metric.title} on test data for every fresh seed.",
        ("Seed", "Baseline", "Intervention", "Difference"),
        rows,
        wide=0,
    )


def _means_table(record: Record) -> Sheet:
    rows = [
        (METRICS[name].title, number(one, METRICS[name]), number(two, METRICS[name]))
        for name, (one, two) in record.verdicts.means.items()
    ]
    return _sheet(
        "Means over the fresh seeds, for every measure on test data. Only the claim's own measure decides.",
        ("Measure", "Baseline", "Intervention"),
        rows,
        wide=0,
    )


def _setting_table(record: Record) -> Sheet:
    setting = record.setting
    facts: Mapping[str, str] = {
        "seed": str(setting.seed),
        "preset": setting.preset,
        "epochs per training": str(setting.epochs),
        "repeats per node": str(setting.repeats),
        "fresh seeds": ", ".join(str(pair.seed) for pair in record.verdicts.judgement.pairs),
        "device": setting.device,
        **dict(setting.versions),
    }
    return _sheet(
        "Under what conditions the numbers were made.", ("Fact", "Value"), list(facts.items()), wide=1
    )


def _head(metric: Metric) -> str:
    return metric.name.replace("_", " ").upper() if metric.name in ("nll", "ece", "rmse") else metric.title
