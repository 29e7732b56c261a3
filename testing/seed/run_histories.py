"""What happens to a run, told to its `Life`: tries, stages, failures, verdicts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from control_plane.model.cancellation import cancel_decision
from control_plane.model.projection import artifact_prefix
from control_plane.runs.decisions import Review, note_decision, noted, pause_decision, review_decision
from control_plane.runs.submission import Submission
from control_plane.store.queue.runs import decode
from control_plane.upkeep.sweeper import promotion, queue_timeout
from events import catalog as c
from events.kinds import stages_of
from events.kinds.declaring.fact import Fact
from events.lifecycle import Status
from events.queue.journal import Decision
from events.queue.settlement import End
from pod_worker.attempt.usage import Rate, usage_of
from testing.seed import texts
from testing.seed.life import Life, digest
from testing.seed.plan import RUNS_A_HYPOTHESIS, Plan

PROBE_LINES_MAX: Final = 3
QUEUE_LIMIT_S: Final = 7 * 24 * 3600
FAILURES: Final = (
    ("OUT_OF_MEMORY", "CUDA out of memory: tried to allocate 2.31 GiB", True),
    ("TIMEOUT", "the run took longer than time_limit_s (86400 s)", False),
    ("ALL_NODES_BUGGY", "every one of 12 nodes diverged", False),
    ("KILLED", "the pipeline was ended by signal 9", True),
    ("EXCEPTION", "ValueError: expected 64 features, got <61>", False),
    ("MODEL_RATE_LIMITED", "the model's server asks for fewer requests", True),
    ("BUDGET_EXCEEDED", "max_cost_usd is spent: $2.00 of $2.00", False),
)
TRACEBACK: Final = (
    'Traceback (most recent call last):\n  File "pipeline.py", line 88, in step\n'
    "    loss = model(batch)\nValueError: expected 64 features, got <61>\n"
)


@dataclass(slots=True)
class Story:
    """One run's fate; `extra` is how many lines it may say beyond what every run says."""

    plan: Plan
    number: int
    extra: int = 0

    def tell(self) -> Life:
        """Live the whole life of the run; return it."""
        plan, number = self.plan, self.number
        rng = plan.rng("run", number)
        at = plan.created_at(number)
        fate = "over" if number == plan.long_run else plan.fate(number)
        life = Life(plan.run(number), "runs", at, rng)
        life.submit(self._wanted(rng, fate, life))
        match fate:
            case "held":
                self._held(life)
            case "over":
                self._over(life)
        return life

    def _wanted(self, rng: random.Random, fate: str, life: Life) -> Submission:
        number, plan = self.number, self.plan
        is_titled = number == plan.long_run or number % texts.HOSTILE_EVERY == 0  # a probe has no title
        is_experiment = rng.random() < plan.experiment_share or is_titled
        priority = rng.choice((0, 0, 0, 0, 5, 10, -10, 50))
        labels = {"team": rng.choice(texts.TEAMS), "sweep": str(number // 200)}
        if number % texts.HOSTILE_EVERY == 1:
            labels["note.<i>"] = texts.HOSTILE[number % len(texts.HOSTILE)][:100]
        delay = timedelta(hours=1 + rng.random() * 700)
        requires: dict[str, Any] = {}
        if rng.random() < 0.3:
            requires["gpu_gib"] = rng.choice((8, 24, 80))
        if rng.random() < 0.2:
            requires["region"] = rng.choice(texts.REGIONS)
        if fate == "held":  # its pod must be one that may have it
            requires = {"gpu_gib": min(8, plan.gpu_gib(self._place()))}
        return Submission(
            kind="experiment" if is_experiment else "probe",
            spec=self._spec(rng, is_experiment=is_experiment),
            by=rng.choice(texts.PEOPLE),
            priority=priority,
            requires=requires,
            not_before=plan.until + delay if fate == "delayed" else None,
            # a queue that stands still outlives everybody who looks at it
            queue_limit_s=365 * 24 * 3600 if fate in ("queued", "delayed") else QUEUE_LIMIT_S,
            labels=labels,
            hypothesis_id=plan.hypothesis(number // RUNS_A_HYPOTHESIS) if is_experiment else None,
        )

    def _spec(self, rng: random.Random, *, is_experiment: bool) -> dict[str, Any]:
        if not is_experiment:
            return {"seconds": float(rng.randint(1, 300)), "events": rng.randint(1, 50)}
        review = "human" if rng.random() < 0.4 else "none"
        return {"idea": texts.idea(self.number, rng), "seed": rng.randrange(100), "review": review}

    def _place(self) -> int:
        """Return the number of the pod that holds the run."""
        return (self.plan.runs - 1 - self.number) // 4

    def _held(self, life: Life) -> None:
        plan, rng = self.plan, life.rng
        # it began a while ago, and stands somewhere in the middle now
        life.wait(min(1.0, (plan.until - life.at).total_seconds() / 2))
        life.claim(plan.pod(self._place()))
        if rng.random() < 0.1:
            return
        life.say(c.RunStarted(pod=life.run["claimedBy"]), after_s=0.5)
        stages = self._stages(life)
        for index in range(rng.randrange(len(stages))):
            self._stage(life, stages, index, 1)
        stage = stages[rng.randrange(len(stages))]
        life.say(c.StageStarted(stage=stage, index=stages.index(stage) + 1, total=len(stages)))
        life.say(c.StageProgress(stage=stage, progress=rng.random(), activity="training node 6 of 8"))
        if stage == "validation":
            life.say(c.ValidationAutoStarted())
        life.apply()
        if rng.random() < 0.1:
            self._decide(life, pause_decision(decode(life.run), by="user:dana"))
        if self.number % 7 == 0:
            self._decide(life, note_decision(decode(life.run), noted(texts.HOSTILE[0]), by="user:dana"))

    def _over(self, life: Life) -> None:
        rng = life.rng
        left = rng.random()
        if self.number != self.plan.long_run and left < 0.04:
            life.wait(rng.random() * 3600)
            self._decide(life, cancel_decision(decode(life.run), by=f"user:{rng.choice(texts.PEOPLE)}"))
            return
        if self.number != self.plan.long_run and left < 0.05:
            life.wait(QUEUE_LIMIT_S)
            if life.at < self.plan.until:
                self._decide(life, queue_timeout(decode(life.run)))
                return
            life.at -= timedelta(seconds=QUEUE_LIMIT_S)
        while not self._attempt(life):
            life.wait(10 + rng.random() * 300)
            if life.status is Status.DELAYED:
                self._decide(life, promotion())
                life.wait(1 + rng.random() * 20)
        if life.status is Status.AWAITING_HUMAN and rng.random() < 0.8:
            life.wait(600 + rng.random() * 86_400)
            said = "pass" if rng.random() < 0.7 else "fail"
            notes = texts.line(self.number, rng)
            review = Review("pass" if said == "pass" else "fail", notes, rng.choice(texts.PEOPLE))
            self._decide(life, review_decision(decode(life.run), review, [], None))

    def _attempt(self, life: Life) -> bool:
        """Live one attempt; say whether it was the last."""
        plan, rng = self.plan, life.rng
        is_long = self.number == plan.long_run
        life.wait(1 + rng.random() * 600)
        pod = plan.past_pod(rng)
        life.claim(pod)
        begun = life.at
        life.say(c.RunStarted(pod=pod), after_s=0.4)
        stages = self._stages(life)
        chance = 1.0 if is_long else rng.random()
        done = len(stages) if chance > 0.2 else rng.randrange(len(stages))
        for index in range(done):
            self._stage(life, stages, index, len(stages))
        rate = Rate(rng.choice((0, 1, 1, 2)), 0.44)
        if done == len(stages):
            if life.run["kind"] == "experiment":
                self._verdict(life)
            life.say(usage_of(rate, (life.at - begun).total_seconds()), after_s=0.1)
            life.say(c.RunCompleted(summary="every stage is done"), after_s=0.2)
            life.settle(End("completed"))
            return True
        stage = stages[done]
        life.say(c.StageStarted(stage=stage, index=done + 1, total=len(stages)))
        life.say(usage_of(rate, (life.at - begun).total_seconds()), after_s=rng.random() * 60)
        return self._broken(life, stage, chance)

    def _broken(self, life: Life, stage: str, chance: float) -> bool:
        """End an attempt before its time; say whether the run is over."""
        rng = life.rng
        if chance < 0.02:
            life.wait(75)
            life.rescue()
        elif chance < 0.05:
            life.apply()
            self._decide(life, cancel_decision(decode(life.run), by=f"user:{rng.choice(texts.PEOPLE)}"))
            life.say(c.RunCanceled(reason="somebody asked"), after_s=2)
            life.settle(End("canceled", message="somebody asked"))
        elif chance < 0.06:
            life.say(c.RunPreempted(reason="SIGTERM"), after_s=1)
            life.settle(End("preempted", message="SIGTERM"))
        else:
            code, message, retryable = rng.choice(FAILURES)
            trace = TRACEBACK if code == "EXCEPTION" else None
            fact = c.RunFailed(code=code, message=message, stage=stage, retryable=retryable, traceback=trace)
            life.say(fact, after_s=1)
            life.settle(End("failed", code, message, stage, retryable))
        return life.status not in (Status.DELAYED, Status.QUEUED)

    def _stages(self, life: Life) -> tuple[str, ...]:
        return stages_of(life.run["kind"]) or ("probe",)

    def _stage(self, life: Life, stages: tuple[str, ...], index: int, shares: int) -> None:
        rng, name = life.rng, stages[index]
        took_s = (5 if name == "probe" else 60) * (0.5 + rng.random())
        life.say(c.StageStarted(stage=name, index=index + 1, total=len(stages)), after_s=0.1)
        lines = self.extra // shares + (self.extra % shares if index == 0 else 0)
        if life.run["kind"] != "experiment":
            lines = min(lines, PROBE_LINES_MAX)
        for number in range(lines):
            life.say(self._detail(name, number, rng), after_s=took_s / (lines + 1))
        if life.run["kind"] == "experiment" and name in ("plots", "paper"):
            life.say(self._artifact(life, name))
        life.say(c.StageCompleted(stage=name, duration_s=round(took_s, 3)), after_s=took_s / (lines + 1))

    def _detail(self, stage: str, number: int, rng: random.Random) -> Fact:
        match number % 6:
            case 0:
                return c.StageProgress(stage=stage, progress=min(1.0, number / 60), activity=f"step {number}")
            case 1:
                return c.StageMetric(stage=stage, name="loss", value=rng.random(), step=number)
            case _:
                level: c.Level = "error" if number % 211 == 0 else "warn" if number % 37 == 0 else "info"
                return c.RunLog(message=texts.line(number, rng), level=level, stage=stage)

    def _artifact(self, life: Life, stage: str) -> Fact:
        name = "paper/paper.pdf" if stage == "paper" else "plots/curves.png"
        sha = digest(life.id, name)
        return c.ArtifactRegistered(
            name=name,
            key=f"{artifact_prefix(life.id, life.run['attempt'])}{sha[:16]}/{name}",
            size=life.rng.randint(10_000, 900_000),
            sha256=sha,
            content_type="application/pdf" if stage == "paper" else "image/png",
            stage=stage,
        )

    def _verdict(self, life: Life) -> None:
        verdict: Any = "pass" if life.rng.random() < 0.45 else "fail"
        life.say(c.ValidationAutoStarted(), after_s=1)
        effect = round(life.rng.gauss(0.01, 0.02), 4)
        against: c.Conclusion = "contradicted" if effect < 0 else "inconclusive"
        concluded = "supported" if verdict == "pass" else against
        life.say(
            c.ValidationAutoCompleted(
                verdict=verdict, conclusion=concluded, summary=f"effect {effect}", scores={"effect": effect}
            ),
            after_s=30,
        )

    def _decide(self, life: Life, decision: object) -> None:
        assert isinstance(decision, Decision), decision
        life.decide(decision)
