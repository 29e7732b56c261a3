"""Every number and quoted text that a paper may cite, by key, each with its events; pure.

Law: a text never types a number. It names a key, such as `{effect.mean}`, and the printed value of that key
is derived here, from the events of the run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from events.catalog import StageMetric
from events.kinds.space.metrics import Metric, metric_named
from events.kinds.space.recipe import Value, described, shown
from stages.kinds.experiment.record.ablations import ablations_of
from stages.kinds.experiment.record.record import ARMS, Finalist, Record, StageRecord
from stages.kinds.experiment.statistics.estimate import CONFIDENCE, POWER, rate_not_excluded
from stages.kinds.experiment.statistics.validation import Judgement, Pair
from stages.kinds.experiment.tree import Node
from stages.ports.literature import Work

REFERENCE: Final = re.compile(r"\{([A-Za-z0-9_./-]+)\}")
MINUS: Final = "\N{MINUS SIGN}"
PAPER: Final = "paper"  # the stage that says what nothing said before it
VALIDATION: Final = "validation"

TITLE_MAX: Final = 180
IDEA_MAX: Final = 3_000
PLAN_MAX: Final = 320
ERROR_MAX: Final = 160
PHRASE_MAX: Final = 240
CHOICE_MAX: Final = 120
WORD_MAX: Final = 24  # longer words get places where a line may break
PIECE: Final = 8  # characters between two such places
PARAMS_MAX: Final = 28
P_VALUE_SHOWN: Final = 0.001
PRINTED_WHOLE_MAX: Final = 1e7  # what is larger is printed with an exponent

NODE_RESULT: Final = "ai.node.completed"
NODE_BIRTH: Final = "ai.node.created"
NODE_CHOICE: Final = "ai.node.selected_best"
METRIC_SAID: Final = "ai.run.stage_metric"


@dataclass(frozen=True, slots=True)
class Source:
    """One field of one event; `about` is a node, or a metric's name with its `step`.

    A node from a checkpoint has the same fields in `ai.node.restored`.
    """

    type: str
    stage: str
    about: str
    field: str = "value"
    step: int | None = None


Rule = Literal["same", "difference", "count"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is printed, its exact value, and how that follows from its sources.

    `same`: the one source's value. `difference`: the first source minus the second. `count`: how
    many sources there are, each of which holds.
    """

    key: str
    text: str
    value: float
    source: tuple[Source, ...]
    rule: Rule = "same"


@dataclass(frozen=True, slots=True)
class Quote:
    """A text that the paper quotes: as printed, in full, and its source."""

    key: str
    text: str
    said: str
    source: Source | None
    origin: str


@dataclass(slots=True)
class Numbers:
    """What can be referred to; a key is given once."""

    numbers: dict[str, Number] = field(default_factory=dict)
    quotes: dict[str, Quote] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key in self.numbers or key in self.quotes

    def __iter__(self) -> Iterator[Number]:
        return iter(self.numbers.values())

    def text(self, key: str) -> str:
        """Return what is printed for `key`. Raises `KeyError`."""
        return self.numbers[key].text if key in self.numbers else self.quotes[key].text

    def resolved(self, text: str) -> str:
        """Return `text` with every known reference replaced by what is printed for it."""
        return REFERENCE.sub(lambda match: self.text(match[1]) if match[1] in self else match[0], text)

    def plain(self) -> dict[str, Any]:
        """Return everything as plain data, for `numbers.json`."""
        return {
            "numbers": [
                {
                    "key": each.key, "text": each.text, "value": each.value, "rule": each.rule,
                    "source": [_plain_source(source) for source in each.source],
                }
                for each in self
            ],
            "quotes": [
                {
                    "key": each.key, "text": each.text, "origin": each.origin,
                    "source": _plain_source(each.source) if each.source else None,
                }
                for each in self.quotes.values()
            ],
        }  # fmt: skip

    def add(self, number: Number) -> None:
        """Add a number; one that is not finite cannot be printed, so there must be no reference to it."""
        assert number.key not in self, number.key
        if math.isfinite(number.value):
            self.numbers[number.key] = number

    def quote(
        self, key: str, said: str, origin: str, limit: int = PHRASE_MAX, source: Source | None = None
    ) -> None:
        """Add a foreign text."""
        assert key not in self.numbers, key
        self.quotes[key] = Quote(key, shown_text(said, limit) or "(empty)", said, source, origin)


def _plain_source(source: Source) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "type": source.type,
        "stage": source.stage,
        "about": source.about,
        "field": source.field,
    }
    return plain if source.step is None else plain | {"step": source.step}


def shown_text(text: str, limit: int) -> str:
    """Return a foreign text, printable, bounded, and breakable into lines."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    if len(clean) > limit or len(text) > 4 * limit:
        clean = f"{clean[:limit].rstrip()} …"
    return re.sub(rf"\S{{{WORD_MAX},}}", _breakable, clean)


def _breakable(word: re.Match[str]) -> str:
    """Return a long word with places where a line may break."""
    return re.sub(rf"(\S{{{PIECE}}})(?=\S)", "\\1\N{ZERO WIDTH SPACE}", word[0])


def paper_title(record: Record) -> str:
    """Return a title that claims nothing and says what was measured, whatever the idea calls itself."""
    return record.claim.question


def measure_of(metric: Metric) -> str:
    """Return what a verdict is about: a measure on test data, unless it has nothing to do with data."""
    return f"test {metric.title}" if metric.selects else metric.title


def claim_key(place: int) -> str:
    """Return the beginning of the keys of the claim's effect at `place`, from 1; the first one has none."""
    return "" if place == 1 else f"claim_{place}."


def metric_text(value: float, decimals: int, *, signed: bool = False) -> str:
    """Return `value` with its metric's decimals, or with an exponent where those would hide it."""
    sign = "+" if signed else ""
    hidden = value != 0 and abs(value) < 0.5 * 10.0**-decimals
    form = f"{sign}.2e" if hidden or abs(value) >= PRINTED_WHOLE_MAX else f"{sign}.{decimals}f"
    return format(value, form).replace("-", MINUS)


def p_text(value: float) -> str:
    """Return a p-value with three decimals; a smaller one has an exponent."""
    return f"{value:.3f}" if value >= P_VALUE_SHOWN else f"{value:.0e}".replace("-", MINUS)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", "\N{NO-BREAK SPACE}%")


def stage_key(stage: StageRecord) -> str:
    """Return the key below which everything about a stage is found, such as `stage_2`."""
    return stage.name.lower()


def unit_facts(metric: Metric, step: int, pair: Pair) -> list[StageMetric]:
    """Return the facts of one unit, the `step`-th from 1: its seed, and both arms on test data."""
    said = {"unit_seed": float(pair.seed)}
    for arm, value in (("baseline", pair.baseline), ("intervention", pair.intervention)):
        if value is not None:
            said[f"test_{metric.name}_{arm}"] = value
    return [StageMetric(stage=VALIDATION, name=name, value=value, step=step) for name, value in said.items()]


def finalist_facts(stage: str, metric: Metric, finalist: Finalist) -> list[StageMetric]:
    """Return the facts of a finalist: its value from each seed, their mean, the mean's standard error."""
    name = _finalist_name(finalist, metric)
    facts = [
        StageMetric(stage=stage, name=name, value=value, step=step)
        for step, value in enumerate(finalist.values, start=1)
    ]
    facts.append(StageMetric(stage=stage, name=f"{name}.mean", value=finalist.mean))
    if finalist.standard_error is not None:
        facts.append(StageMetric(stage=stage, name=f"{name}.standard_error", value=finalist.standard_error))
    return facts


def facts_to_say(record: Record) -> list[StageMetric]:
    """Return every stage metric that the paper's numbers rest on; those not reported yet must be reported."""
    claim, facts = record.claim, []
    for stage in record.stages:
        for finalist in stage.finalists:
            facts += finalist_facts(stage.name, claim.selection, finalist)
    for judgement in record.verdicts.judgements:
        for step, pair in enumerate(judgement.pairs, start=1):
            facts += unit_facts(judgement.plan.metric, step, pair)
    facts += [
        StageMetric(stage=VALIDATION, name=name, value=value) for name, value, _ in _verdict_values(record)
    ]
    off, on = record.baseline.params, record.intervention.params
    facts += [
        StageMetric(stage=VALIDATION, name=_off_name(name), value=float(value))
        for name, value in off.items()
        if not _same(off, on, name) and _is_number(value)
    ]
    facts += [StageMetric(stage=PAPER, name=key, value=value) for key, value, _ in _setting_values(record)]
    return [fact for fact in dict.fromkeys(facts) if math.isfinite(fact.value)]


def _verdict_values(record: Record) -> Iterator[tuple[str, float, str]]:
    """Yield name, value and text of what validation computes from the units."""
    for place, each in enumerate(record.verdicts.judgements, start=1):
        yield from ((f"{claim_key(place)}{name}", value, text) for name, value, text in _effect_values(each))
    judgement = record.verdicts.judgement
    places = record.claim.quality.decimals
    for name, value in record.verdicts.references.items():
        yield f"reference.{_slug(name)}", value, metric_text(value, places)
    for name, (one, two) in record.verdicts.means.items():
        places = metric.decimals if (metric := metric_named(name)) is not None else 4
        key = _slug(name)
        yield f"mean.{key}.baseline", one, metric_text(one, places)
        yield f"mean.{key}.intervention", two, metric_text(two, places)
    plan = judgement.plan
    for name, count in (
        ("units.registered", plan.units),
        ("units.rows", plan.rows),
        ("units.test_rows", plan.test_rows),
    ):
        yield name, float(count), str(count)
    use = record.verdicts.use
    if use is not None:
        for name, told in (("number", use.number), ("earlier", use.earlier), ("factor", use.factor)):
            if told is not None:
                yield f"use.{name}", float(told), str(told)
        if use.p_beside is not None:
            yield "use.p_beside", use.p_beside, p_text(use.p_beside)
    yield "confidence", CONFIDENCE, _percent(CONFIDENCE)
    yield "level", plan.level, f"{plan.level:.4f}"
    for place, look in enumerate(plan.looks, start=1):
        yield f"look_{place}.units", float(look.units), str(look.units)
        yield f"look_{place}.level", look.level, f"{look.level:.4f}"
    yield "power", POWER, _percent(POWER)
    excluded = rate_not_excluded(plan.units)
    yield "failures.not_excluded", excluded, _percent(excluded)


def _effect_values(judgement: Judgement) -> Iterator[tuple[str, float, str]]:
    """Yield the same of one effect of the claim."""
    decimals, region, interval = judgement.plan.metric.decimals, judgement.plan.region, judgement.interval
    for name, value in (("region.above", region.low), ("region.below", region.high)):
        if math.isfinite(value):
            yield name, value, metric_text(value, decimals, signed=True)
    if interval is None:
        return
    for name, value in (
        ("effect.mean", interval.mean), ("effect.low", interval.low), ("effect.high", interval.high),
    ):  # fmt: skip
        yield name, value, metric_text(value, decimals, signed=True)
    if interval.seen is not None:
        yield "effect.seen", interval.seen, metric_text(interval.seen, decimals)
    if interval.p_value is not None:
        yield "effect.p_value", interval.p_value, p_text(interval.p_value)
    if judgement.p_corrected is not None and interval.p_value is not None:
        yield "effect.p_corrected", judgement.p_corrected, p_text(judgement.p_corrected)
    if judgement.in_test_rows is not None:
        yield (
            "effect.in_test_rows",
            judgement.in_test_rows,
            metric_text(judgement.in_test_rows, 1, signed=True),
        )


def _setting_values(record: Record) -> Iterator[tuple[str, float, str]]:
    """Yield key, value and text of what was decided before the search, and counts over all of it."""
    setting, claim = record.setting, record.claim
    whole: dict[str, int] = {
        "run.seed": setting.seed,
        "run.attempt": setting.attempt,
        "setting.repeats": setting.repeats,
        "setting.epochs": setting.epochs,
        "data.features": setting.features,
        "data.outputs": setting.outputs,
        "works.found": len(record.works),
    }
    whole |= {f"split.{_slug(name)}": size for name, size in setting.split.items()}
    whole |= {f"{stage_key(stage)}.limit": stage.limit for stage in record.stages}
    if claim.train_examples is not None:
        whole["data.train_examples"] = claim.train_examples
    pairs = ablations_of(record)
    differences = [each.difference for each in pairs if each.difference is not None]
    higher = claim.selection.higher_is_better
    whole["ablations.complete"] = len(differences)
    whole["ablations.better"] = sum((each > 0) if higher else (each < 0) for each in differences)
    for key, value in whole.items():
        yield key, float(value), str(value)


def numbers_of(record: Record) -> Numbers:
    """Return every number and text that a paper on `record` may cite."""
    found = Numbers()
    for key, value, text in _setting_values(record):
        found.add(Number(key, text, value, (Source(METRIC_SAID, PAPER, key),)))
    for name, value, text in _verdict_values(record):
        found.add(Number(name, text, value, (Source(METRIC_SAID, VALIDATION, name),)))
    _add_quotes(found, record)
    for stage in record.stages:
        _add_stage(found, record, stage)
    _add_totals(found, record)
    _add_arms(found, record)
    _add_effort(found, record)
    _add_ablations(found, record)
    _add_units(found, record)
    for place, work in enumerate(record.works):
        found.quote(f"work_{place}.text", work_text(work), "the look-up of publications", IDEA_MAX)
        if work.url:
            found.quote(f"work_{place}.url", work.url, "the look-up of publications", IDEA_MAX)
    return found


def work_text(work: Work) -> str:
    """Return a publication as a list of references shows it, without its address."""
    authors = ", ".join(work.authors[:6]) + (" et al." if len(work.authors) > 6 else "")
    parts = (authors.strip(), work.title.strip(), work.venue.strip(), str(work.year) if work.year else "")
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def _add_quotes(found: Numbers, record: Record) -> None:
    idea, claim, setting = record.idea, record.claim, record.setting
    found.quote("title", paper_title(record), "the claim, as the idea was read", TITLE_MAX)
    found.quote("idea", idea.short_hypothesis, "the run's specification", IDEA_MAX)
    found.quote("claim", claim.sentence, "the claim, as the idea was read")
    found.quote("subject", claim.subject, "the claim, as the idea was read")
    found.quote("metric", claim.metric.title, "the claim, as the idea was read")
    for place, each in enumerate(claim.effects, start=1):
        found.quote(f"{claim_key(place)}measure", measure_of(each.metric), "the claim, as the idea was read")
    found.quote("selection", claim.selection.title, "the claim, as the idea was read")
    found.quote("data", claim.data.title, "the claim, as the idea was read")
    for place, note in enumerate(claim.notes, start=1):
        found.quote(f"note_{place}", note, "the claim, as the idea was read", IDEA_MAX)
    if key := claim.data.group or claim.data.time:
        found.quote("split.key", key, "the column by which rows are split", IDEA_MAX)
    for place, note in enumerate(setting.notes, start=1):
        found.quote(f"data.note_{place}", note, "the data, as they were read", IDEA_MAX)
    found.quote("run.id", setting.run_id, "the run's own id")
    for name in ("preset", "researcher", "isolation", "device"):
        found.quote(f"setting.{name}", getattr(setting, name), "the run's setting")
    for place, (name, version) in enumerate(setting.versions.items(), start=1):
        found.quote(f"version_{place}.name", name, "the run's setting")
        found.quote(f"version_{place}", version, "the run's setting")


def _add_stage(found: Numbers, record: Record, stage: StageRecord) -> None:
    """Add a stage's nodes, what it chose, and its finalists."""
    top, metric = stage_key(stage), record.claim.selection
    found.quote(f"{top}.name", stage.name.replace("_", " "), "the stage's name")
    found.quote(f"{top}.ended", stage.ended, "the search policy")
    found.quote(
        f"{top}.reason",
        stage.reason,
        "the stage's choice",
        source=Source(NODE_CHOICE, stage.name, stage.best.id, "reason"),
    )
    found.quote(f"{top}.chosen", stage.best.id, "the node's name")
    found.add(_counted(f"{top}.nodes", stage.nodes))
    found.add(_counted(f"{top}.buggy", [node for node in stage.nodes if node.buggy], "buggy"))
    _add_metric(found, f"{top}.best", stage.best, metric)
    for place, node in enumerate(stage.nodes, start=1):
        key = f"{top}.node_{place}"
        found.quote(f"{key}.id", node.id, "the node's name")
        found.quote(f"{key}.plan", node.plan, "the node's plan", PLAN_MAX, _birth(node, "plan"))
        if node.error is not None:
            found.quote(f"{key}.problem", node.error, "the node's error", ERROR_MAX, _result(node, "error"))
        _add_metric(found, f"{key}.metric", node, metric)
    for place, finalist in enumerate(stage.finalists, start=1):
        _add_finalist(found, f"{top}.finalist_{place}", stage, finalist, metric)


def _add_finalist(found: Numbers, key: str, stage: StageRecord, finalist: Finalist, metric: Metric) -> None:
    name = _finalist_name(finalist, metric)

    def said(key: str, value: float, name: str, step: int | None = None) -> Number:
        text = metric_text(value, metric.decimals)
        return Number(key, text, value, (Source(METRIC_SAID, stage.name, name, step=step),))

    found.quote(f"{key}.id", finalist.node, "the node's name")
    for step, value in enumerate(finalist.values, start=1):
        found.add(said(f"{key}.value_{step}", value, name, step))
    found.add(said(f"{key}.mean", finalist.mean, f"{name}.mean"))
    if finalist.standard_error is not None:
        found.add(said(f"{key}.standard_error", finalist.standard_error, f"{name}.standard_error"))
    steps = range(1, len(finalist.values) + 1)
    each = tuple(Source(METRIC_SAID, stage.name, name, step=step) for step in steps)
    found.add(Number(f"{key}.seeds", str(len(each)), float(len(each)), each, "count"))


def _finalist_name(finalist: Finalist, metric: Metric) -> str:
    return f"finalist.{finalist.node}.{metric.name}"


def _add_totals(found: Numbers, record: Record) -> None:
    nodes = [node for stage in record.stages for node in stage.nodes]
    found.add(_counted("nodes.tried", nodes))
    found.add(_counted("nodes.buggy", [node for node in nodes if node.buggy], "buggy"))
    sources = tuple(Source(METRIC_SAID, PAPER, f"{stage_key(stage)}.limit") for stage in record.stages)
    found.add(Number("stages.searched", str(len(sources)), float(len(sources)), sources, "count"))


def _counted(key: str, nodes: Iterable[Node], held: str = "node") -> Number:
    """Return how many nodes there are, each of which has an event."""
    sources = tuple(_result(node, held) for node in nodes)
    return Number(key, str(len(sources)), float(len(sources)), sources, "count")


def _add_metric(found: Numbers, key: str, node: Node, metric: Metric) -> None:
    if node.metric is not None:
        found.add(
            Number(key, metric_text(node.metric, metric.decimals), node.metric, (_result(node, "metric"),))
        )


def _result(node: Node, name: str) -> Source:
    return Source(NODE_RESULT, node.stage, node.id, name)


def _birth(node: Node, name: str) -> Source:
    return Source(NODE_BIRTH, node.stage, node.id, name)


def _add_arms(found: Numbers, record: Record) -> None:
    """Add both arms: their names, validation scores, and the choices in their programs."""
    for arm, node in (("baseline", record.baseline), ("intervention", record.intervention)):
        found.quote(f"{arm}.id", node.id, "the node's name")
        _add_metric(found, f"{arm}.validation", node, record.claim.selection)
        for name, value in node.scores.items():
            if (metric := metric_named(name)) is not None:
                text = metric_text(value, metric.decimals)
                found.add(Number(f"{arm}.score.{name}", text, value, (_result(node, f"scores.{name}"),)))
    for place, name in enumerate(choices(record), start=1):
        found.quote(
            f"choice_{place}.name", described({name: ""}).strip(), "a choice in a node's program", CHOICE_MAX
        )
        for arm, node in (("baseline", record.baseline), ("intervention", record.intervention)):
            if name in node.params:
                is_off = arm == "baseline" and not _same(node.params, record.intervention.params, name)
                source = None if is_off else _birth(node, f"params.{name}")
                _add_choice(found, f"choice_{place}.{arm}", source, name, node.params[name])


def _add_effort(found: Numbers, record: Record) -> None:
    """Add how often each arm was tried, and which choices were varied for it."""
    tried = {
        "baseline": [*record.stage("Stage_1").nodes, *record.stage("Stage_2").nodes],
        "intervention": [*record.stage("Stage_3").nodes],
    }
    for arm, nodes in tried.items():
        found.add(_counted(f"effort.{arm}.tries", nodes))
        names = dict.fromkeys(name for node in nodes for name in node.params)
        varied = [name for name in names if len({str(node.params.get(name)) for node in nodes}) > 1]
        words = ", ".join(described({name: ""}).strip() for name in varied) or "none"
        found.quote(f"effort.{arm}.varied", words, "the choices of its nodes")


def choices(record: Record) -> list[str]:
    """Return the choices that the table of both arms shows: first those that differ, then the others."""
    one, two = record.baseline.params, record.intervention.params
    names = list(dict.fromkeys((*one, *two)))
    return sorted(names, key=lambda name: _same(one, two, name))[:PARAMS_MAX]


def _same(one: Mapping[str, Value], two: Mapping[str, Value], name: str) -> bool:
    return name in one and name in two and one[name] == two[name]


def _off_name(choice: str) -> str:
    return f"off.{_slug(choice)}"


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _add_choice(found: Numbers, key: str, source: Source | None, name: str, value: Value) -> None:
    """Add a choice that a node's birth told, or, without a source, one that the validation tells."""
    if _is_number(value):
        source = source or Source(METRIC_SAID, VALIDATION, _off_name(name))
        found.add(Number(key, shown(value).replace("-", MINUS), float(value), (source,)))
    else:
        found.quote(key, shown(value), "a choice in a node's program", CHOICE_MAX, source)


def _add_ablations(found: Numbers, record: Record) -> None:
    metric = record.claim.selection
    for place, each in enumerate(ablations_of(record), start=1):
        key = f"ablation_{place}"
        found.quote(f"{key}.condition", each.condition, "the ablation's plan")
        if each.without is not None:
            _add_metric(found, f"{key}.without", each.without, metric)
        if each.with_it is not None:
            _add_metric(found, f"{key}.with", each.with_it, metric)
        if each.difference is not None and each.with_it is not None and each.without is not None:
            sources = (_result(each.with_it, "metric"), _result(each.without, "metric"))
            text = metric_text(each.difference, metric.decimals, signed=True)
            found.add(Number(f"{key}.difference", text, each.difference, sources, "difference"))


def _add_units(found: Numbers, record: Record) -> None:
    """Add each unit with what both arms reached on its test data."""
    pairs = record.verdicts.judgement.pairs

    def said(name: str, step: int) -> Source:
        return Source(METRIC_SAID, VALIDATION, name, step=step)

    for place, judgement in enumerate(record.verdicts.judgements, start=1):
        _add_differences(found, judgement, claim_key(place))
    for place, arm in enumerate(ARMS):
        failed = [said("unit_seed", step) for step, pair in enumerate(pairs, start=1) if pair.failed[place]]
        found.add(_counted_units(f"units.failed.{arm}", failed))
    measured = [
        said("unit_seed", step) for step, pair in enumerate(pairs, start=1) if pair.difference is not None
    ]
    found.add(_counted_units("units.measured", measured))


def _add_differences(found: Numbers, judgement: Judgement, top: str) -> None:
    """Add what both arms reached by one measure, below the key `top`."""
    metric = judgement.plan.metric
    decimals = metric.decimals

    def said(name: str, step: int) -> Source:
        return Source(METRIC_SAID, VALIDATION, name, step=step)

    for step, pair in enumerate(judgement.pairs, start=1):
        key = f"{top}unit_{step}"
        sources = [said(f"test_{metric.name}_{arm}", step) for arm in ("intervention", "baseline")]
        found.add(Number(f"{key}.seed", str(pair.seed), float(pair.seed), (said("unit_seed", step),)))
        for arm, value, source in (
            ("intervention", pair.intervention, sources[0]), ("baseline", pair.baseline, sources[1]),
        ):  # fmt: skip
            if value is not None:
                found.add(Number(f"{key}.{arm}", metric_text(value, decimals), value, (source,)))
        if pair.difference is not None:
            text = metric_text(pair.difference, decimals, signed=True)
            found.add(Number(f"{key}.difference", text, pair.difference, tuple(sources), "difference"))


def _counted_units(key: str, sources: list[Source]) -> Number:
    return Number(key, str(len(sources)), float(len(sources)), tuple(sources), "count")


def _slug(name: str) -> str:
    """Return `name` as a part of a key."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)
