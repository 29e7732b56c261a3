"""Proposes what a study tries next; what takes long is asked of a process of its own.

The process starts when it is first needed, is ended where it does not answer, and ends with this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from control_plane.model.groups.members import Trial
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.space import Choice
from control_plane.model.groups.study import Study, identity
from control_plane.model.groups.trials import Outcome
from events.runtime.errors import Rejected, Transient

MODULE: Final = "control_plane.runs.groups.tpe"
ANSWER_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 4 << 20
MISSING: Final = (
    "a study with the sampler tpe needs Optuna on the control plane: install the extra `study` "
    "(podfleet[study]), or choose grid or random"
)


def require_sampler(study: Study) -> None:
    """Refuse a study whose sampler is not installed. Raises `Rejected`."""
    if study.sampler == "tpe" and importlib.util.find_spec("optuna") is None:
        raise Rejected("study_unavailable", MISSING)


@dataclass(slots=True)
class Proposer:
    """Proposes values for the next slots of a study. Raises `Rejected`, `Transient`."""

    process: Process | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def slots(self, study: Study, trials: Sequence[Trial], count: int) -> list[Values]:
        """Return the values of at most `count` slots that follow; none where there is nothing else to try."""
        values = study.begun(trials)
        wanted = -(-(count - len(values)) // study.repeats)
        if wanted > 0:
            known = [each for each, _ in study.tried(trials)]
            proposals = [study.baseline] if study.baseline and not known else []
            proposals += await self._new(study, trials, [*known, *proposals], wanted - len(proposals))
            values += study.repeated(proposals)
        return values[:count]

    async def _new(
        self, study: Study, trials: Sequence[Trial], known: Sequence[Values], count: int
    ) -> list[Values]:
        if count <= 0:
            return []
        # beside the event loop: a study may have two thousand trials
        if study.sampler != "tpe":
            return await asyncio.to_thread(study.proposals, known, count)
        require_sampler(study)
        asked = await asyncio.to_thread(lambda: msgspec.json.encode(request(study, trials, known, count)))
        answer = await self._ask(asked)
        return [_values(study, params) for params in answer]

    async def _ask(self, asked: bytes) -> list[dict[str, Any]]:
        async with self.turn:
            try:
                async with asyncio.timeout(ANSWER_S):
                    process = await self._running()
                    assert process.stdin is not None
                    assert process.stdout is not None
                    process.stdin.write(asked + b"\n")
                    await process.stdin.drain()
                    line = await process.stdout.readline()
                return msgspec.json.decode(line, type=list[dict[str, Any]])
            except TimeoutError as error:
                await self.close()
                message = (
                    f"a proposal took longer than {ANSWER_S:.0f} s: give the study fewer runs or parameters"
                )
                raise Rejected("slow_study", message) from error
            except (OSError, ValueError, msgspec.DecodeError) as error:
                await self.close()
                raise Transient(
                    "no_proposal", f"the process of proposals did not answer: {error!r}"
                ) from error

    async def _running(self) -> Process:
        if self.process is None or self.process.returncode is not None:
            command = (sys.executable, "-m", MODULE)
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=ANSWER_BYTES_MAX
            )
        return self.process

    async def close(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                process.kill()
            await process.wait()


def request(study: Study, trials: Sequence[Trial], known: Sequence[Values], count: int) -> dict[str, Any]:
    """Return what the process is asked, pure: all trials, those that have measured nothing yet as running."""
    told: dict[bytes, dict[str, Any]] = {}
    for each in study.outcomes(trials):
        params = _params(study, each.values)
        if params is not None and (said := _told(study, each)) is not None:
            told.setdefault(identity(each.values), {"params": params, **said})
    return {
        "seed": study.seed,
        "direction": "minimize" if study.is_lower_better else "maximize",
        "space": {
            name: ["values", 0, len(each.values) - 1]
            if isinstance(each, Choice)
            else [each.form, each.low, each.high]
            for name, each in study.space.items()
        },
        "trials": list(told.values()),
        "known": [params for values in known if (params := _params(study, values)) is not None],
        "count": count,
    }


def _told(study: Study, outcome: Outcome) -> dict[str, Any] | None:
    """Return what the process is told of a trial; None of one that failed."""
    if not outcome.has_ended:
        return {"state": "running"}
    if outcome.stop is not None and study.pruning is not None:
        # in the direction of the goal: the process compares the values of pruned trials by it
        sign = 1 if study.pruning.is_lower_better == study.is_lower_better else -1
        return {"state": "pruned", "step": outcome.stop.step, "value": sign * outcome.stop.value}
    if outcome.objective is None:
        return None
    return {"state": "complete", "value": outcome.objective, "excess": list(outcome.excess)}


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


def _values(study: Study, params: dict[str, Any]) -> Values:
    return {
        name: each.values[params[name]] if isinstance(each, Choice) else params[name]
        for name, each in study.space.items()
    }
