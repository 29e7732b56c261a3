"""Composes a paper: its texts, tables and figures, at a level of detail; pure.

Tables, numbers and figures come from the record alone, for any author of the words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.kinds.space.metrics import metric_named
from stages.kinds.experiment.judging.switch import difference_of
from stages.kinds.experiment.paper.blocks import (
    Block,
    Document,
    Figure,
    Heading,
    Listing,
    Paragraph,
    Reference,
    Row,
    Table,
)
from stages.kinds.experiment.paper.words import verdict_words
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.ablations import ablations_of
from stages.kinds.experiment.record.numbers import Numbers, choices, claim_key, stage_key
from stages.kinds.experiment.record.prose import Prose
from stages.kinds.experiment.record.record import Record, StageRecord
from stages.kinds.experiment.tree import Node

CELL_MAX: Final = 24  # characters of a choice; a table with longer ones breaks its cells into lines
CONDITIONS_PER_NODE: Final = 3  # rows of the ablations for each row of a stage's table
LINE_MIN: Final = 36  # characters that a line of a cell takes, even if they are wide
LINES_MAX: Final = 16
CODE_COLUMNS: Final = 96  # longer lines of a listing are broken
NOTHING: Final = "–"


@dataclass(frozen=True, slots=True)
class Level:
    """How much of the run the paper shows; whatever is left out lies beside it."""

    name: str
    nodes: int  # rows of a stage's table
    figures: frozenset[str]
    code_lines: int


_ALL: Final = frozenset({"nodes", "finalists", "learning_curves", "search_tree", "ablation", "comparison"})
LEVELS: Final = (
    Level("everything", 1_000, _ALL, 220),
    Level("a short listing", 1_000, _ALL, 60),
    Level("the best nodes of each stage", 6, _ALL, 60),
    Level("no listing", 6, _ALL, 0),
    Level("few figures", 4, frozenset({"nodes", "ablation", "comparison"}), 0),
    Level("the least", 2, frozenset({"comparison"}), 0),
)


def composed(
    record: Record, prose: Prose, numbers: Numbers, pictures: Sequence[Picture], level: Level, folder: Path
) -> Document:
    """Return the paper at one level of detail; figures are named by their places below `folder`."""
    works = _cited(record, prose)
    page = _Page(record, prose, numbers, {each.name: each for each in pictures}, level, folder)
    return Document(
        title="{title}",
        byline="Run {run.id}, attempt {run.attempt}, seed {run.seed}. Words: {author}.",
        verdict=f"{record.verdicts.conclusion.capitalize()}. {verdict_words(record, numbers)}",
        abstract=tuple(prose.sections["abstract"]),
        blocks=tuple(page.blocks()),
        references=tuple(
            Reference(
                f"{{work_{place}.text}}", f"{{work_{place}.url}}" if f"work_{place}.url" in numbers else ""
            )
            for place in works
        ),
        appendix=tuple(page.appendix()),
        works=works,
    )


def _cited(record: Record, prose: Prose) -> tuple[int, ...]:
    """Return the works that the words refer to, in the order of the text, then those named beside it."""
    said = "\n".join(text for texts in prose.sections.values() for text in texts)
    places = [int(match) for match in re.findall(r"\{work\.([0-9]{1,4})\}", said)]
    return tuple(dict.fromkeys(place for place in (*places, *prose.cited) if 0 <= place < len(record.works)))


@dataclass(frozen=True, slots=True)
class _Page:
    """Puts the blocks of one paper together."""

    record: Record
    prose: Prose
    numbers: Numbers
    pictures: dict[str, Picture]
    level: Level
    folder: Path

    def blocks(self) -> list[Block]:
        return [
            Heading("Introduction"),
            Paragraph("{idea}", quoted=True),
            *self._words("introduction"),
            Heading("Related work"),
            *self._words("related_work"),
            Heading("Method"),
            *self._words("method"),
            *self._arms(),
            self._effort(),
            Heading("Results of the search"),
            *self._words("results"),
            *self._figure("nodes"),
            *(self._stage_table(stage) for stage in self.record.stages[:3]),
            *self._finalists(),
            *self._figure("finalists"),
            *self._figure("learning_curves"),
            *self._figure("search_tree"),
            Heading("Ablations"),
            *self._words("ablations"),
            *self._ablations(),
            *self._figure("ablation"),
            Heading("Validation"),
            *self._words("validation"),
            *(self._units(place) for place, _ in enumerate(self.record.claim.effects, start=1)),
            *self._figure("comparison"),
            *self._means(),
            *self._references(),
            Heading("Limitations"),
            *self._words("limitations"),
            Heading("Conclusion"),
            *self._words("conclusion"),
            Heading("Reproducibility"),
            *self._reproducibility(),
            self._setting(),
        ]

    def _words(self, section: str) -> list[Block]:
        return [Paragraph(text) for text in self.prose.sections[section] if text.strip()]

    def _figure(self, name: str) -> list[Block]:
        picture = self.pictures.get(name)
        if picture is None or name not in self.level.figures:
            return []
        image = next(path for path in picture.images if path.suffix == ".pdf")
        return [Figure(name, image.relative_to(self.folder), picture.caption)]

    def _arms(self) -> list[Block]:
        names = choices(self.record)
        if not names:
            return []
        one, two = self.record.baseline.params, self.record.intervention.params
        rows = []
        for place, name in enumerate(names, start=1):
            cells = tuple(
                f"{{{key}}}" if key in self.numbers else NOTHING
                for key in (
                    f"choice_{place}.name",
                    f"choice_{place}.baseline",
                    f"choice_{place}.intervention",
                )
            )
            rows.append(Row(cells, bold=one.get(name) != two.get(name)))
        is_long = any(len(self.numbers.resolved(cell)) > CELL_MAX for row in rows for cell in row.cells)
        more = " Further choices are in results.json." if len({*one, *two}) > len(names) else ""
        return [
            Table(
                "arms",
                "What the two arms chose: the program of {intervention.id} with its switch off, and with it on. "
                "Bold: where they differ." + more,
                ("Choice", "Baseline", "Intervention"),
                ("wide", "wide", "wide") if is_long else ("left", "right", "right"),
                tuple(rows),
                long=self._is_long(rows),
            )
        ]

    def _effort(self) -> Table:
        rows = [
            Row((title, f"{{effort.baseline.{name}}}", f"{{effort.intervention.{name}}}"))
            for title, name in (("Tries", "tries"), ("Choices varied", "varied"))
        ]
        return Table(
            "effort",
            "The effort for each arm: the programs that were tried with the switch off (the first two stages) and on "
            "(the third), and the choices that were varied among them.",
            ("", "Baseline", "Intervention"),
            ("left", "wide", "wide"),
            tuple(rows),
        )

    def _stage_table(self, stage: StageRecord) -> Table:
        key = stage_key(stage)
        places = _shown(self.record, stage, self.level.nodes)
        rows = []
        for place in places:
            node = stage.nodes[place - 1]
            top = f"{key}.node_{place}"
            plan = f"{{{top}.plan}}" + (
                f" (buggy: {{{top}.problem}})" if f"{top}.problem" in self.numbers else ""
            )
            value = f"{{{top}.metric}}" if f"{top}.metric" in self.numbers else "buggy"
            rows.append(Row((f"{{{top}.id}}", plan, value), bold=node.id == stage.best.id))
        left = (
            " Only the best of its {"
            + key
            + ".nodes} nodes are shown; all are in results.json and nodes.csv."
            if len(places) < len(stage.nodes)
            else ""
        )
        chosen = (
            "Bold: chosen."
            if any(node.id == stage.best.id for node in stage.nodes)
            else f"None of them was chosen: {{{key}.chosen}}, from which the stage started, stays."
        )
        return Table(
            key, f"{{{key}.name}}: what was tried, and the {{selection}} on validation data, from one seed. {chosen}{left}",
            ("Node", "Plan", "Validation"), ("left", "wide", "right"), tuple(rows), long=self._is_long(rows),
        )  # fmt: skip

    def _finalists(self) -> list[Block]:
        rows = []
        for stage in self.record.stages:
            for place, finalist in enumerate(stage.finalists, start=1):
                top = f"{stage_key(stage)}.finalist_{place}"
                error = f"{{{top}.standard_error}}" if f"{top}.standard_error" in self.numbers else NOTHING
                mean = f"{{{top}.mean}}" if f"{top}.mean" in self.numbers else NOTHING
                cells = (f"{{{stage_key(stage)}.name}}", f"{{{top}.id}}", f"{{{top}.seeds}}", mean, error)
                rows.append(Row(cells, bold=finalist.node == stage.best.id))
        if not rows:
            return []
        return [
            Table(
                "finalists",
                "The finalists of each stage, trained again from several seeds: mean and standard error of the "
                "{selection} on validation data. Bold: chosen.",
                ("Stage", "Node", "Seeds", "Mean", "Standard error"),
                ("left", "left", "right", "right", "right"),
                tuple(rows),
                long=self._is_long(rows),
            )
        ]

    def _ablations(self) -> list[Block]:
        rows = []
        pairs = ablations_of(self.record)
        shown = pairs[: self.level.nodes * CONDITIONS_PER_NODE]
        for place, each in enumerate(shown, start=1):
            top = f"ablation_{place}"
            cells = (
                f"{{{top}.condition}}",
                self._arm(f"{top}.without", each.without),
                self._arm(f"{top}.with", each.with_it),
                f"{{{top}.difference}}" if f"{top}.difference" in self.numbers else NOTHING,
            )
            rows.append(Row(cells))
        return [
            Table(
                "ablation",
                "Ablations: {selection} on validation data without and with the intervention, and the difference; one seed each."
                + (
                    " Only the first conditions are shown; all are in results.json."
                    if len(shown) < len(pairs)
                    else ""
                ),
                ("Condition", "Without", "With", "Difference"),
                ("wide", "right", "right", "right"),
                tuple(rows),
                long=self._is_long(rows),
            )
        ]

    def _is_long(self, rows: Sequence[Row]) -> bool:
        """Return whether a table may have to go over a page's end."""
        longest = (max(len(self.numbers.resolved(cell)) for cell in row.cells) for row in rows)
        return sum(1 + length // LINE_MIN for length in longest) > LINES_MAX

    def _arm(self, key: str, node: Node | None) -> str:
        if node is None:
            return "not tried"
        return f"{{{key}}}" if key in self.numbers else "buggy"

    def _units(self, claim: int) -> Table:
        """Return both programs in each unit, by the measure of one effect of the claim."""
        judgement, top = self.record.verdicts.judgements[claim - 1], claim_key(claim)
        pairs = judgement.pairs
        rows = [
            Row(
                tuple(
                    f"{{{key}}}" if key in self.numbers else NOTHING
                    for key in (
                        f"{top}unit_{step}.{name}"
                        for name in ("seed", "baseline", "intervention", "difference")
                    )
                )
            )
            for step, _ in enumerate(pairs, start=1)
        ]
        is_whole = not any(any(pair.failed) for pair in pairs)
        failed = "" if is_whole else " A program that failed has the worst score."
        if f"{top}effect.mean" in self.numbers:
            name = judgement.plan.metric.name
            means = [f"mean.{name}.{arm}" for arm in ("baseline", "intervention")]
            one, two = (f"{{{key}}}" if key in self.numbers else "" for key in means)
            rows.append(Row(("mean", one, two, f"{{{top}effect.mean}}"), bold=True))
            ends = f"{{{top}effect.low}} to {{{top}effect.high}}"
            rows.append(Row(("{confidence} interval", "", "", ends), bold=True))
        label = "units" if claim == 1 else f"units_{claim}"
        return Table(
            label, f"The {{{top}measure}} in every unit, by the seed of its split. The interval is that of the mean difference.{failed}",
            ("Unit", "Baseline", "Intervention", "Difference"), ("left", "right", "right", "right"), tuple(rows),
            long=self._is_long(rows),
        )  # fmt: skip

    def _means(self) -> list[Block]:
        rows = [
            Row((_told_title(name), f"{{mean.{name}.baseline}}", f"{{mean.{name}.intervention}}"))
            for name in self.record.verdicts.means
            if metric_named(name)
            and f"mean.{name}.baseline" in self.numbers
            and f"mean.{name}.intervention" in self.numbers
        ]
        if not rows:
            return []
        return [
            Table(
                "means",
                "Means over the units in which both programs gave a result, for everything that was measured there. "
                "Only the claim’s own measure decides.",
                ("Measure", "Baseline", "Intervention"),
                ("left", "right", "right"),
                tuple(rows),
            )
        ]

    def _references(self) -> list[Block]:
        quality = self.record.claim.quality
        names = [name for name in self.record.verdicts.references if f"reference.{name}" in self.numbers]
        if not names:
            return []
        rows = [Row((name.replace("_", " "), f"{{reference.{name}}}")) for name in names]
        if f"mean.{quality.name}.baseline" in self.numbers:
            rows.append(Row(("the baseline", f"{{mean.{quality.name}.baseline}}"), bold=True))
        return [
            Table(
                "references",
                f"The {quality.title} of plain reference models in the same units, beside which the baseline has to stand. "
                "Where it gains less than two thirds of what the best of them gains over a constant answer, "
                "nothing is concluded.",
                ("Model", "Mean"),
                ("left", "right"),
                tuple(rows),
            )
        ]

    def _reproducibility(self) -> list[Block]:
        others = (
            " Parts of it were measured by earlier attempts of this run on other pods, and are their word."
            if self.record.others
            else ""
        )
        return [
            Paragraph(
                "Everything follows from the seed {run.seed}: splits, order of proposals, initial weights. The same seed "
                "gives the same numbers on the same machine and versions, except for seconds, and except where a language "
                "model chose what to try. Every printed number carries its key in the source paper.tex, and numbers.json "
                "names for each key the exact value and the events of the run that said it. All results are in "
                f"results.json, and each figure has the data that drew it beside it as CSV.{others}"
            )
        ]

    def _setting(self) -> Table:
        facts = [
            ("seed", "{run.seed}"), ("preset", "{setting.preset}"), ("epochs per training", "{setting.epochs}"),
            ("seeds per finalist", "{setting.repeats}"), ("units", "{units.registered}"),
            ("researcher", "{setting.researcher}"), ("isolation", "{setting.isolation}"),
            ("device", "{setting.device}"),
        ]  # fmt: skip
        facts += [
            (f"{{version_{place}.name}}", f"{{version_{place}}}")
            for place, _ in enumerate(self.record.setting.versions, start=1)
        ]
        return Table(
            "setting", "Under what conditions the numbers were made.", ("Fact", "Value"), ("left", "wide"),
            tuple(Row(cells) for cells in facts),
        )  # fmt: skip

    def appendix(self) -> list[Block]:
        """Return what the intervention changed in the program, or the whole program where little is shared."""
        if self.level.code_lines == 0:
            return []
        code = self.record.intervention.code
        difference = difference_of(code)
        lines = _broken(difference or code.splitlines())
        if not lines:
            return []
        what = (
            "What the switch changes in the program of {intervention.id}, of which both arms are runs"
            if difference
            else "The program of {intervention.id}, of which both arms are runs"
        )
        cut = lines[: self.level.code_lines]
        rest = " Its beginning is shown here." if len(cut) < len(lines) else ""
        return [
            Heading("Appendix: program", numbered=False),
            Paragraph(f"{what}.{rest} The whole program is in results.json."),
            Listing("\n".join(cut)),
        ]


def _shown(record: Record, stage: StageRecord, limit: int) -> list[int]:
    """Return the places, from 1, of the nodes that a table shows: the best ones, in the order they were tried."""
    sign = -1.0 if record.claim.selection.higher_is_better else 1.0

    def rank(place: int) -> tuple[bool, bool, float]:
        node = stage.nodes[place - 1]
        return node.id != stage.best.id, node.metric is None, sign * (node.metric or 0.0)

    places = range(1, len(stage.nodes) + 1)
    return sorted(sorted(places, key=rank)[:limit])


def _broken(lines: Sequence[str]) -> list[str]:
    """Return lines that fit the page."""
    return [
        line[start : start + CODE_COLUMNS]
        for line in lines
        for start in range(0, max(1, len(line)), CODE_COLUMNS)
    ]


def _told_title(metric: str) -> str:
    """Return a measure's title, marked where only the programs could count it."""
    known = metric_named(metric)
    assert known is not None
    return f"{known.title}, as the programs say" if known.is_told else known.title
