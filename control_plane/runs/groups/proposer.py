"""Proposes what a study tries next; what takes long is asked of a process of its own.

A process starts when it is first needed, is ended where it does not answer, and ends with this one; there are
`PROCESSES_MAX` at most, which studies take in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from control_plane.concurrency.turns import in_turns
from control_plane.model.groups.constraints import LACKING
from control_plane.model.groups.members import Trial
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.space import Choice
from control_plane.model.groups.study import Study
from control_plane.model.groups.trials import Outcome, outcome_of
from events.runtime.errors import Rejected, Transient

MODULE: Final = "control_plane.runs.groups.tpe"
PROCESSES_MAX: Final = 2
ANSWER_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 4 << 20
MISSING: Final = "needs Optuna on the control plane: install the extra `study` (podfleet[study])"


def require_sampler(study: Study) -> None:
    """Refuse a study whose sampler is not installed. Raises `Rejected`."""
    if study.sampler == "tpe":
        require_estimator("a study with the sampler tpe", ", or choose grid or random")


def require_estimator(what: str, instead: str = "") -> None:
    """Refuse what needs the estimator where it is not installed. Raises `Rejected`."""
    if importlib.util.find_spec("optuna") is None:
        raise Rejected("study_unavailable", f"{what} {MISSING}{instead}")


@dataclass(slots=True)
class Proposer:
    """Proposes values for the next slots of a study. Raises `Rejected`, `Transient`."""

    idle: list[Process] = field(default_factory=list)
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PROCESSES_MAX))

    async def slots(
        self, study: Study, trials: Sequence[Trial], count: int, refused: Sequence[Values] = ()
    ) -> list[Values]:
        """Return the values of at most `count` slots that follow; none where there is nothing else to try.

        What the kind of its runs `refused` is known as impossible.
        """
        if study.reruns.top:
            if study.over(trials) is not None:
                return study.confirmations(trials)[:count]
            count = min(count, study.search_slots - len(trials))
        values = study.due(trials)
        wanted = -(-(count - len(values)) // study.repeats)
        if wanted > 0:
            known = [each for each, _ in study.tried(trials)]
            proposals = [study.baseline] if study.baseline and not known else []
            wanted -= len(proposals)
            proposals += await self._new(study, trials, [*known, *proposals], refused, wanted)
            values += study.woven(trials, proposals)
        if not values and all(each.has_ended for each in trials):  # nothing else is left to try
            return study.confirmations(trials)[:count]
        return values[:count]

    async def _new(
        self,
        study: Study,
        trials: Sequence[Trial],
        tried: Sequence[Values],
        refused: Sequence[Values],
        count: int,
    ) -> list[Values]:
        if count <= 0:
            return []
        known = [*tried, *refused]
        # in turns, not in a thread: a thread that computes keeps the event loop waiting at each of its steps
        if study.sampler != "tpe":
            looked_at = in_turns(study.candidates(known, count))
            return [each async for each in looked_at if each is not None]
        require_sampler(study)
        told = [each async for each in in_turns(_trials(study, trials, refused))]
        inside = [each async for each in in_turns(_inside(study, known))]
        answer = await self._ask(msgspec.json.encode(_request(study, told, inside, count)))
        return [values_of(study, params) for params in answer]

    async def importance(self, study: Study, outcomes: Sequence[Outcome]) -> dict[str, float]:
        """Return the share of each parameter in what decides; nothing where the trials do not tell."""
        require_estimator("the importance of parameters")
        told = [each async for each in in_turns(_completed(study, outcomes))]
        asked = {"ask": "importance", **_request(study, told, [], 0)}
        answer = await self._ask(msgspec.json.encode(asked))
        shares = {each["name"]: float(each["share"]) for each in answer}
        return {name: shares[name] for name in study.space if name in shares}

    async def _ask(self, asked: bytes) -> list[dict[str, Any]]:
        async with self.turn:
            process: Process | None = None
            answer: list[dict[str, Any]] | None = None
            try:
                async with asyncio.timeout(ANSWER_S):
                    process = await self._running()
                    answer = await _exchanged(process, asked)
                return answer
            except TimeoutError as error:
                message = (
                    f"a proposal took longer than {ANSWER_S:.0f} s: give the study fewer runs or parameters"
                )
                raise Rejected("slow_study", message) from error
            except (OSError, ValueError, msgspec.DecodeError) as error:
                raise Transient(
                    "no_proposal", f"the process of proposals did not answer: {error!r}"
                ) from error
            finally:
                if process is not None and answer is not None:
                    self.idle.append(process)
                elif process is not None:  # one that has not answered may answer the next question with this
                    await _end(process)

    async def _running(self) -> Process:
        while self.idle:
            process = self.idle.pop()
            if process.returncode is None:
                return process
        command = (sys.executable, "-m", MODULE)
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=ANSWER_BYTES_MAX
        )

    async def close(self) -> None:
        """End the processes that nobody waits for."""
        while self.idle:
            await _end(self.idle.pop())


async def _exchanged(process: Process, asked: bytes) -> list[dict[str, Any]]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(asked + b"\n")
    await process.stdin.drain()
    return msgspec.json.decode(await process.stdout.readline(), type=list[dict[str, Any]])


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended just now
        process.kill()
    await process.wait()


def request(study: Study, trials: Sequence[Trial], known: Sequence[Values], count: int) -> dict[str, Any]:
    """Return what the process is asked, pure: all trials, those that have measured nothing yet as running."""
    return _request(study, list(_trials(study, trials)), list(_inside(study, known)), count)


def _request(
    study: Study, trials: Sequence[dict[str, Any]], known: Sequence[dict[str, Any]], count: int
) -> dict[str, Any]:
    return {
        "seed": study.seed,
        "directions": ["minimize" if each.is_lower_better else "maximize" for each in study.goals],
        "space": {
            name: ["ordered" if each.is_ordered else "values", 0, len(each.values) - 1]
            if isinstance(each, Choice)
            else [each.form, each.low, each.high]
            for name, each in study.space.items()
        },
        "trials": trials,
        "known": known,
        "count": count,
    }


def _trials(
    study: Study, trials: Sequence[Trial], refused: Sequence[Values] = ()
) -> Iterator[dict[str, Any]]:
    """Yield what the process is told of each trial; values that were refused are as those that failed."""
    for values, slots in study.tried(trials):
        said = _told(study, outcome_of(slots, study.repeats))
        params = _params(study, values)
        if said is not None and params is not None:
            yield {"params": params, **said}
    for values in refused:
        if (params := _params(study, values)) is not None:
            yield {"params": params, **_failed(study)}


def _completed(study: Study, outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """Yield what the process is told of trials that have measured something."""
    for each in outcomes:
        if (params := _params(study, each.values)) is not None:
            yield {"params": params, "state": "complete", "values": list(each.means)}


def _inside(study: Study, known: Sequence[Values]) -> Iterator[dict[str, Any]]:
    """Yield the values that were tried, as the process takes them, without those outside of the space."""
    for values in known:
        if (params := _params(study, values)) is not None:
            yield params


def _told(study: Study, outcome: Outcome) -> dict[str, Any] | None:
    """Return what the process is told of a trial; None of one that failed by no fault of its own."""
    if not outcome.has_ended:
        return {"state": "running"}
    if outcome.stop is not None and study.pruning is not None:
        if len(study.goals) > 1:  # the value of one metric says nothing of two goals
            return _failed(study)
        # in the direction of the goal: the process compares the values of pruned trials by it
        sign = 1 if study.pruning.is_lower_better == study.goal.is_lower_better else -1
        return {"state": "pruned", "step": outcome.stop.step, "value": sign * outcome.stop.value}
    if outcome.has_failed:
        return _failed(study)
    if not outcome.numbers:
        return None
    return {"state": "complete", "values": list(outcome.means), "excess": list(outcome.excess)}


def _failed(study: Study) -> dict[str, Any]:
    """Return what the process is told of impossible values: worse than what breaks a constraint."""
    return {"state": "failed", "excess": [LACKING] * len(study.constraints)}


def _params(study: Study, values: Values) -> dict[str, Any] | None:
    """Return values as the process takes them; None where one lies outside of the space."""
    params: dict[str, Any] = {}
    for name, each in study.space.items():
        value = values[name]
        if isinstance(each, Choice):
            if value not in each.values:
                return None
            params[name] = list(each.values).index(value)
        elif type(value) not in (int, float) or not each.low <= value <= each.high:
            return None
        else:
            params[name] = value
    return params


def values_of(study: Study, params: dict[str, Any]) -> Values:
    """Return what the process proposed as values of the study."""
    return {
        name: each.values[params[name]] if isinstance(each, Choice) else params[name]
        for name, each in study.space.items()
    }
