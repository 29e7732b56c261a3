"""Everything of one stretch of a fill: its runs, and the hypotheses and pods that belong to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from control_plane.kinds.ideation.proposing import NewHypothesis, hypothesis_document
from control_plane.runs.submission import Submission
from events import catalog as c
from events.kinds.ideation import KIND, IdeationGenerated, IdeationStarted
from events.queue.settlement import End
from pod_worker.isolation.confinement import WORDS
from pod_worker.machine.gauges import Capabilities, Telemetry
from pod_worker.machine.gpu import Gpu
from pod_worker.queue.roster import PodReport, State, report_fields
from testing.seed import texts
from testing.seed.life import Life, encoded, ulid
from testing.seed.plan import EXPERIMENT_EVENTS, RUNS_A_HYPOTHESIS, Plan
from testing.seed.run_histories import Story
from testing.seed.sweep_copies import echo

LINES_MAX: Final = 2_000  # of a run that is not the long one
IDEATION_EVERY: Final = 3
IDEAS: Final = 3


@dataclass(frozen=True, slots=True)
class Told:
    """What is to be stored of one run or request."""

    collection: str
    events: int
    documents: dict[str, list[bytes]]


def told(plan: Plan, chunk: int) -> Iterator[Told]:
    """Tell the runs of a chunk, the oldest first; together they have about as many events as wanted."""
    written = 0.0
    lead: tuple[int, Life, dict[str, list[bytes]]] | None = None
    for place, number in enumerate(plan.numbers(chunk), 1):
        first = plan.echoes(number)
        if lead is not None and lead[0] == first:
            documents = echo(lead[1], lead[2], first, number, plan.run(number))
        else:
            lacking = (
                int(plan.events / plan.runs * (place + plan.sweep) - written) // plan.sweep
                - EXPERIMENT_EVENTS
            )
            extra = plan.long_log if number == plan.long_run else min(LINES_MAX, max(0, lacking))
            life = Story(plan, number, extra).tell()
            documents = encoded(life)
            lead = number, life, documents
        count = len(documents["events"])
        written += 0 if number == plan.long_run else count
        yield Told("runs", count, documents)
        if number % RUNS_A_HYPOTHESIS == 0 and (number // RUNS_A_HYPOTHESIS) % IDEATION_EVERY == 0:
            documents = encoded(ideation(plan, number // RUNS_A_HYPOTHESIS))
            yield Told("ideation_requests", len(documents["events"]), documents)


def hypotheses(plan: Plan, chunk: int) -> list[dict[str, Any]]:
    """Return the hypotheses whose first run is in the chunk."""
    numbers = [number for number in plan.numbers(chunk) if number % RUNS_A_HYPOTHESIS == 0]
    return [_hypothesis(plan, number // RUNS_A_HYPOTHESIS) for number in numbers]


def _wanted(plan: Plan, group: int) -> NewHypothesis:
    rng = plan.rng("idea of", group)
    has_ideation = group % IDEATION_EVERY == 0
    idea = texts.idea(group, rng)
    return NewHypothesis(
        title=texts.title(group, rng),
        idea=str(idea["Short Hypothesis"]) if has_ideation else idea,
        by=rng.choice(texts.PEOPLE),
        enable_ideation=has_ideation,
        max_num_generations=IDEAS,
    )


def _hypothesis(plan: Plan, group: int) -> dict[str, Any]:
    wanted, hypothesis_id = _wanted(plan, group), plan.hypothesis(group)
    document = {"_id": hypothesis_id, **hypothesis_document(wanted, hypothesis_id, _request(plan, group))}
    document["createdAt"] = _proposed_at(plan, group)
    if wanted.enable_ideation and group % 2 == 0:
        document["ideaIndex"] = 1
    return document


def _proposed_at(plan: Plan, group: int) -> Any:
    return plan.created_at(min(plan.runs - 1, group * RUNS_A_HYPOTHESIS)) - timedelta(hours=1)


def _request(plan: Plan, group: int) -> str:
    return ulid(_proposed_at(plan, group), plan.rng("ideation", group))


def ideation(plan: Plan, group: int) -> Life:
    """Return the request for ideas of a hypothesis, which found some."""
    rng = plan.rng("ideation's life", group)
    wanted = _wanted(plan, group)
    life = Life(_request(plan, group), KIND.queue.collection, _proposed_at(plan, group), rng)
    spec = {"title": wanted.title, "idea": wanted.idea, "max_num_generations": IDEAS}
    owner = plan.hypothesis(group)
    life.submit(Submission(kind=KIND.name, spec=spec, by=wanted.by, hypothesis_id=owner))
    life.wait(5)
    life.claim(plan.past_pod(rng))
    life.say(c.RunStarted(pod=life.run["claimedBy"]), after_s=0.5)
    life.say(IdeationStarted(), after_s=0.1)
    life.say(IdeationGenerated(ideas=[texts.idea(group + n, rng) for n in range(IDEAS)]), after_s=90)
    life.say(c.RunCompleted(summary=f"{IDEAS} ideas"), after_s=0.1)
    life.settle(End("completed"))
    return life


def pods(plan: Plan) -> list[dict[str, Any]]:
    """Return the roster as it stood at the plan's last moment."""
    return [_pod(plan, place) for place in range(plan.pods)]


def _pod(plan: Plan, place: int) -> dict[str, Any]:
    rng = plan.rng("pod", place)
    held = plan.runs - 1 - (4 * place + 1)
    owned = None
    if held >= 0 and held != plan.long_run and plan.fate(held) == "held":
        owned = Story(plan, held).tell()
    gib = plan.gpu_gib(place)
    gpus = (Gpu(f"NVIDIA with {gib} GB", gib * 1024.0),) if gib else ()
    state: State = "busy" if owned else rng.choice(("idle", "idle", "suspended", "draining", "stopped"))
    report = PodReport(
        id=plan.pod(place),
        pod=plan.pod(place).partition("/")[0],
        mode="hybrid",
        region=plan.region(place),
        kinds=("experiment", "ideation", "probe"),
        state=state,
        run_id=None if owned is None else owned.id,
        attempt=None if owned is None else owned.run["attempt"],
        device="cuda" if gib else "cpu",
        isolation="strict",
        pipeline_user=WORDS["user"],
        capabilities=Capabilities(cpus=8, memory_mib=32 * 1024.0, gpus=gpus),
        telemetry=Telemetry(
            cpu_util=round(rng.random(), 3),
            memory_mib=round(rng.random() * 32 * 1024),
            gpu_util=round(rng.random(), 3) if gib else None,
            gpu_memory_mib=round(rng.random() * gib * 1024) if gib else None,
            gpu_temperature_c=rng.randint(35, 84) if gib else None,
        ),
        version="0.1.0",
        started_at=plan.until - timedelta(hours=rng.random() * 200),
    )
    return {
        "_id": report.id,
        **report_fields(report),
        "startedAt": report.started_at.replace(microsecond=0),
        "reportedAt": plan.until - timedelta(seconds=rng.randrange(10)),
        "orders": {"drain": state == "draining"},
    }
