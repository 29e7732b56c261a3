"""The experiment from idea to verdict.

Order: the four stages of the search, the validation on units of its own, plots, paper, review. The
paper states what was measured, so the measurement comes before it; the verdict weighs both, so it
comes last. How the claim will be judged is registered before its intervention is tried. The targets of rows
that judge never leave this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from events.kinds.experiment import (
    STAGES,
    DataWarned,
    ExperimentSpec,
)
from events.kinds.idea import idea_of
from events.kinds.space.understanding import file_named_in
from events.lifecycle import Fault
from events.queue.faults import blame_of
from events.runtime.errors import GivenBack, PipelineError
from stages.context import Context
from stages.kinds.experiment.data.columns import Key
from stages.kinds.experiment.data.data_warnings import warnings_of
from stages.kinds.experiment.data.loading import Data, find_data_set
from stages.kinds.experiment.judging.secret_source import secret_of
from stages.kinds.experiment.paper.recorder import Recorder
from stages.kinds.experiment.paper.renderer import find_renderer
from stages.kinds.experiment.record.ledger import (
    Past,
)
from stages.kinds.experiment.record.record import (
    Record,
)
from stages.kinds.experiment.record.rows import headline, verdict_rows
from stages.kinds.experiment.research.researcher_factory import choose_researcher
from stages.kinds.experiment.research.steering import Attentive
from stages.kinds.experiment.steps.experiment_run import ExperimentRun, effort_of
from stages.kinds.experiment.steps.reporting import Reporting
from stages.kinds.experiment.steps.searching import Searching
from stages.kinds.experiment.steps.trial_setup import registrations, set_up
from stages.kinds.experiment.steps.validating import Validating
from stages.pipeline import classify

# Failures that follow from what was tried and measured, in this attempt or in earlier ones; others have own causes.
OF_RECORDS: Final = frozenset({"ALL_NODES_BUGGY", "MAX_ITERATIONS", "RENDERER"})


def run(context: Context) -> str:
    """Run the whole experiment; return one line that sums it up."""
    witness = Recorder(context.reporter)
    context = replace(context, reporter=witness)
    spec = context.spec
    assert isinstance(spec, ExperimentSpec)
    folder = _own_folder(context.workspace)
    renderer = find_renderer(folder)
    data_set = find_data_set(
        spec.dataset or file_named_in(idea_of(spec.idea)), context.tools.data_sets, _key_of(spec)
    )
    effort = effort_of(spec)
    past = Past(context)
    try:
        chosen = choose_researcher(context, spec, data_set, effort.epochs, past)
        context = replace(context, reporter=Attentive(witness, chosen.steering))
        experiment = ExperimentRun(context, spec, effort, chosen, past, folder)
        return _run(experiment, Reporting(experiment, witness, renderer))
    except Exception as error:  # whatever it is, an earlier attempt may be its cause
        _begin_anew(past, error)
        raise


def _run(run: ExperimentRun, reporting: Reporting) -> str:
    """Search, validate, draw, write and review."""
    isolation = run.context.tools.sandbox.isolation()
    gaps = f", which leaves open: {'; '.join(isolation.gaps)}" if isolation.gaps else ""
    run.context.log(f"programs run isolated by {isolation.name}{gaps}")
    setup = set_up(run, secret_of(run.context, run.spec.seed))
    data = setup.evaluation_set.disguised.data
    warnings = warnings_of(setup.units.table, data) if run.claim.data.location else ()
    _announce(run, data, warnings)
    searching = Searching(run)
    search = searching.searcher(setup)
    with search.forest.kept(run.context, run.folder):
        stages = searching.search(search, registrations(run, setup))
    verdicts = Validating(run).validate(setup, stages, search.used_seeds)
    record = Record(
        idea=idea_of(run.spec.idea),
        claim=run.claim,
        setting=reporting.setting(data, warnings),
        stages=stages,
        verdicts=verdicts,
        others=tuple(sorted(run.past.others)),
    )
    for row in verdict_rows(record):
        run.context.result(row.set, row.key, row.values, row.status)
    run.context.summarize(headline(record))
    pictures = reporting.draw(record, run.folder / "paper" / "plots")
    verdict = reporting.review(record, reporting.write(record, pictures, run.folder / "paper"))
    return f"{verdict.conclusion}: {run.claim.sentence} {verdict.summary}"


def _begin_anew(past: Past, error: Exception) -> None:
    """Give the run back where an end may be the work of earlier attempts, so that the next one does without.

    Raises `GivenBack`.
    """
    code, is_retryable = classify(error)
    is_own = (
        isinstance(error, GivenBack)
        or blame_of(code).fault is not Fault.RUN
        or code == "OUT_OF_MEMORY"  # of this pod, whatever earlier attempts left
        or (isinstance(error, PipelineError) and code not in OF_RECORDS)
    )
    if is_own or is_retryable or not past.is_used or not past.set_aside(STAGES):
        return
    why = f"this attempt went on from earlier ones and ended by {code}"
    past.context.log(f"{why}, so the next one begins anew: {error}", "error")
    raise GivenBack(why) from error


def _announce(run: ExperimentRun, data: Data, warnings: Sequence[str]) -> None:
    run.context.log(f"research by {run.researcher.name}; seed {run.spec.seed}")
    run.context.log(f"claim: {run.claim.sentence}")
    for note in (*run.claim.notes, *data.notes):
        run.context.log(note)
    for warning in warnings:
        run.context.log(warning, "warning")
        run.context.emit(DataWarned(says=warning))


def _key_of(spec: ExperimentSpec) -> Key | None:
    """Return by which column of its file a run is split."""
    if spec.group is not None:
        return Key(spec.group, "group")
    return None if spec.time is None else Key(spec.time, "time")


def _own_folder(workspace: Path) -> Path:
    """Return a folder that is new: what another experiment left cannot be read as a result."""
    folder = workspace / "experiment"
    folder.mkdir(parents=True)
    return folder
