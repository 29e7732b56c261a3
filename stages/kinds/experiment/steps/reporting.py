"""Plots, paper, review and verdict of what was measured."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from events.catalog import ValidationAutoCompleted
from events.files.open_beneath import copy_beneath
from events.files.paths import SafeName
from events.kinds.declaring.spec import TITLE_MAX
from events.kinds.experiment import (
    PaperGenerated,
    PaperStarted,
)
from stages.kinds.experiment.consistency import (
    paper_problem,
)
from stages.kinds.experiment.data.loading import Data
from stages.kinds.experiment.paper.recorder import Recorder
from stages.kinds.experiment.paper.renderer import Renderer, is_pdf
from stages.kinds.experiment.paper.tracing import trace
from stages.kinds.experiment.paper.typesetter import Paper, name_author, write_paper
from stages.kinds.experiment.plots.drawing import draw_all, draw_shown, pictures_at_most
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.ledger import (
    PaperState,
    ReviewState,
    state_of,
)
from stages.kinds.experiment.record.numbers import Numbers, facts_to_say, numbers_of
from stages.kinds.experiment.record.record import (
    Record,
    Setting,
    as_results,
)
from stages.kinds.experiment.record.reviews import ENSEMBLE
from stages.kinds.experiment.steps.experiment_run import STAGES_TOTAL, ExperimentRun
from stages.kinds.experiment.steps.verdict import Verdict, weigh
from stages.ports.literature import LookUpFailed, Work

WORKS_MAX: Final = 8
REPORTED_LIBRARIES: Final = ("torch", "scikit-learn", "numpy", "matplotlib", "typst")
SOURCE_BYTES_MAX: Final = 512 << 10  # of a paper's source that is traced: ours are a fifth of it


@dataclass(frozen=True, slots=True)
class Reporting:
    """Draws, writes and reviews; `witness` has heard every event that the paper may state."""

    run: ExperimentRun
    witness: Recorder
    renderer: Renderer

    def setting(self, data: Data, warnings: Sequence[str]) -> Setting:
        tools = self.run.context.tools
        return Setting(
            run_id=self.run.context.run_id,
            attempt=self.run.context.attempt,
            seed=self.run.spec.seed,
            preset=self.run.spec.preset,
            repeats=self.run.effort.repeats,
            epochs=self.run.effort.epochs,
            researcher=self.run.researcher.name,
            isolation=tools.sandbox.isolation().name,
            device=f"{tools.gpus} GPU" if tools.gpus else "CPU, 1 thread for each program",
            versions={
                "python": platform.python_version(),
                **{name: version(name) for name in REPORTED_LIBRARIES},
            },
            split=data.sizes,
            features=data.visible.train.features.shape[1],
            outputs=data.facts.outputs,
            notes=(*data.notes, *warnings),
        )

    def _looked_up(self) -> tuple[Work, ...]:
        """Return earlier publications on the claim, where there is an index that answers."""
        literature = self.run.context.tools.literature
        if literature is None:
            return ()
        try:
            found = literature.search(f"{self.run.claim.subject} {self.run.claim.metric.title}", WORKS_MAX)
        except LookUpFailed as failure:
            self.run.context.log(f"no literature was looked up: {failure}", "warning")
            return ()
        self.run.context.log(f"the literature look-up found {len(found)} works")
        return tuple(found)

    def draw(self, record: Record, folder: Path) -> tuple[Picture, ...]:
        """Draw every figure, each kept with the data that drew it.

        Where an earlier attempt drew and kept them, those of the whole run are drawn again, from the record: a
        picture of another pod may show anything, or be one that no renderer sets.
        """
        finished = self.run.past.finished("plots")
        if finished is None:
            return self._draw_anew(record, folder)
        pictures = tuple(draw_shown(record, folder))
        if finished.from_run is not None:  # whose artifacts are not this run's
            self._keep_files(pictures, folder)
        return pictures

    def _draw_anew(self, record: Record, folder: Path) -> tuple[Picture, ...]:
        with self.run.context.stage("plots", index=6, total=STAGES_TOTAL) as stage:
            pictures: list[Picture] = []
            total = pictures_at_most(record)
            for picture in draw_all(record, folder):
                stage.progress(len(pictures) / total, f"drew {picture.name}")
                self._keep_files([picture], folder)
                pictures.append(picture)
            self.run.context.checkpoint("plots", state_of(None, is_complete=True))
        return tuple(pictures)

    def _keep_files(self, pictures: Sequence[Picture], folder: Path) -> None:
        for path in (path for picture in pictures for path in picture.files):
            self.run.context.keep(path, f"plots/{path.relative_to(folder).as_posix()}")

    def write(self, record: Record, pictures: Sequence[Picture], folder: Path) -> Paper:
        """Write the paper; its source and every number are kept beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        finished = self.run.past.finished("paper")
        files = finished.files if finished is not None else {}
        sizes = {name: path.stat().st_size for name, path in files.items()}

        def problem_of(state: PaperState) -> str | None:
            problem = paper_problem(state, sizes)
            return "paper.pdf is no PDF" if not problem and not is_pdf(files["paper.pdf"]) else problem

        state = self.run.past.read(finished, PaperState, problem_of)
        if finished is not None and state is not None:
            record = replace(record, setting=state.setting, works=state.works)
            self._say_numbers(record)
            paper = _paper_taken_over(state, numbers_of(record), files, folder)
            if finished.from_run is not None:
                self._keep_paper(record, paper, folder)
            self._tell_paper(paper)  # whoever wrote it may have been lost before saying so
            return paper
        with self.run.context.stage("paper", index=7, total=STAGES_TOTAL) as stage:
            self.run.context.emit(PaperStarted())
            record = replace(record, works=self._looked_up())
            self._say_numbers(record)
            stage.progress(0.0, f"{self.run.researcher.name} writes")
            prose = self.run.researcher.write(record)
            stage.progress(0.5, "setting the pages")
            paper = write_paper(record, prose, numbers_of(record), pictures, folder, self.renderer)
            for warning in paper.warnings:
                self.run.context.log(warning, "warning")
            self._keep_paper(record, paper, folder)
            files = {path.name: path for path in paper.files}
            state = PaperState(
                paper.title, paper.author, paper.text, paper.pages, paper.level, record.setting, record.works,
                tuple(SafeName(name) for name in files),
            )  # fmt: skip
            self.run.context.checkpoint("paper", state_of(state, is_complete=True), files)
            self._tell_paper(paper)
        return paper

    def _keep_paper(self, record: Record, paper: Paper, folder: Path) -> None:
        """Keep the paper's files, and beside them everything that was measured."""
        results = folder / "results.json"
        results.write_text(json.dumps(as_results(record), indent=1), encoding="utf-8")
        for path in (*paper.files, results):
            self.run.context.keep(path, f"paper/{path.relative_to(folder).as_posix()}")

    def _tell_paper(self, paper: Paper) -> None:
        name = f"paper/{paper.pdf.name}"
        self.run.context.emit(PaperGenerated(name=name, title=paper.title[:TITLE_MAX], pages=paper.pages))

    def _say_numbers(self, record: Record) -> None:
        """Report the sources of the paper's numbers that were not reported yet."""
        for fact in facts_to_say(record):
            if not self.witness.has_heard(fact):
                self.run.context.emit(fact)

    def review(self, record: Record, paper: Paper) -> Verdict:
        """Trace the paper's numbers, have it reviewed where there is a model, and report the verdict."""
        state = self.run.past.read(self.run.past.finished("review"), ReviewState)
        if state is not None:
            verdict = weigh(record, state.untraced, state.traced, state.reviews, sorted(self.run.past.others))
            self._tell(verdict)
            return verdict
        with self.run.context.stage("review", index=8, total=STAGES_TOTAL) as stage:
            stage.progress(0.0, "tracing every number of the paper to its event")
            traced = trace(_source_of(paper), paper.numbers, self.witness)
            stage.metric("numbers_traced", float(traced.count))
            for each in traced.untraced:
                self.run.context.log(f"the paper states {each}, which no event says", "error")
            stage.progress(0.3, f"{self.run.researcher.name} reviews the paper")
            reviews = tuple(self.run.researcher.review(paper.text, ENSEMBLE))
            verdict = weigh(record, traced.untraced, traced.count, reviews, sorted(self.run.past.others))
            state = ReviewState(traced.count, traced.untraced, reviews)
            self.run.context.checkpoint("review", state_of(state, is_complete=True))
            self._tell(verdict)
        return verdict

    def _tell(self, verdict: Verdict) -> None:
        self.run.context.summarize({"conclusion": verdict.conclusion})
        self.run.context.emit(
            ValidationAutoCompleted(
                verdict=verdict.verdict,
                conclusion=verdict.conclusion,
                summary=verdict.summary,
                code=verdict.code,
                scores=verdict.scores,
                replication=verdict.replication,
            )
        )


def _source_of(paper: Paper) -> str:
    """Return the beginning of the paper's source, which may be an earlier attempt's."""
    with paper.source.open("rb") as file:
        return file.read(SOURCE_BYTES_MAX).decode("utf-8", "replace")


def _paper_taken_over(state: PaperState, numbers: Numbers, left: Mapping[str, Path], folder: Path) -> Paper:
    """Return a paper that an earlier attempt wrote, with its files."""
    name_author(numbers, state.author)
    files = {str(name): copy_beneath(left[name], folder, name) for name in state.files}
    return Paper(
        title=state.title,
        pdf=files["paper.pdf"],
        source=files["paper.tex"],
        text=state.text,
        pages=state.pages,
        level=state.level,
        author=state.author,
        numbers=numbers,
        files=tuple(files.values()),
    )
