"""Where programs are tried and judged, by data that are hidden from them, and how a claim will be judged."""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_hex
from typing import Final

from stages.isolation.sandbox import JobLimits
from stages.kinds.experiment.data.divisions import pieces_of
from stages.kinds.experiment.data.loading import divided, load_table
from stages.kinds.experiment.data.reserve import reserve_of, without_reserve
from stages.kinds.experiment.judging.disguise import disguise_of
from stages.kinds.experiment.judging.evaluation_set import EvaluationSet, write_evaluation_set
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.search.worker_pool import WorkerPool
from stages.kinds.experiment.statistics.earlier import identity_of
from stages.kinds.experiment.statistics.looks import LEVEL_BY_TIME, Look, looks_of, units_of
from stages.kinds.experiment.statistics.region import region_of
from stages.kinds.experiment.statistics.validation import (
    Registration,
)
from stages.kinds.experiment.steps.experiment_run import ExperimentRun
from stages.kinds.experiment.trials.trial import Bench, write_data
from stages.kinds.experiment.trials.units import Units

CPU_PER_WALL: Final = 2.0  # seconds of processor time that a program may use in a second


@dataclass(frozen=True, slots=True)
class TrialSetup:
    """Where programs are tried, what judges them in the search and later, and who does the work."""

    bench: Bench
    evaluation_set: EvaluationSet
    units: Units
    pool: WorkerPool


def set_up(run: ExperimentRun, secret: Secret, *, by_reserve: bool = False) -> TrialSetup:
    """Hide the data by a secret, and return where programs are tried and judged.

    Only what is `by_reserve` sees the reserve of the data set, where there is one.
    """
    tools, claim = run.context.tools, run.claim
    table, few = load_table(claim.data), claim.train_examples
    kept = reserve_of(table, identity_of(claim.data))
    reserve = kept.rows if by_reserve and len(kept.rows) else None
    if reserve is None:
        table = without_reserve(table, kept)
    wanted = units_of(run.effort.looks)
    plain = divided(
        table,
        claim.data.name,
        seed=run.spec.seed,
        train_examples=few,
        unit=(0, wanted),
        reserve=reserve,
    )
    disguise = disguise_of(plain, secret, is_public=not claim.data.location)
    hidden = disguise.worn(plain)
    folder = run.folder / "data" / token_hex(8)  # programs see its name, which says nothing
    limit_s = run.spec.program_limit_s
    bench = Bench(
        facts=hidden.data.facts,
        data=write_data(folder, hidden.data.visible),
        sandbox=tools.sandbox,
        limits=JobLimits(wall_s=limit_s, cpu_s=limit_s * CPU_PER_WALL),
        spending=run.chosen.spending,
        measured=claim.metrics | {claim.selection.name, claim.quality.name},
        epochs=run.effort.epochs,
        device="cuda" if tools.gpus else "cpu",
        secret=secret,
        places=run.folder / "programs",
    )
    return TrialSetup(
        bench,
        write_evaluation_set(folder, hidden, secret),
        Units(
            table,
            claim.data.name,
            wanted,
            few,
            claim.quality,
            disguise,
            secret,
            run.folder / "data",
            reserve,
        ),
        WorkerPool(tools.slots, tools.gpus),
    )


def registrations(run: ExperimentRun, setup: TrialSetup) -> tuple[Registration, ...]:
    """Return how each effect of the claim is judged."""
    data, table = setup.evaluation_set.disguised.data, setup.units.table
    counts = len(table), data.sizes["test"], pieces_of(table)
    looks, possible, wanted = looks_of(run.effort.looks), setup.units.possible, setup.units.wanted
    if run.claim.data.time:
        looks = (Look(possible, LEVEL_BY_TIME),)
    return tuple(
        Registration(
            each.metric,
            region_of(each),
            looks[0].units,
            *counts,
            data.counted_by(each.metric),
            wanted if possible < wanted else 0,
            looks[0].level,
            looks if len(looks) > 1 else (),
        )
        for each in run.claim.effects
    )
