"""`podfleet pods roll`: a rolling update of workers, each of which finishes its runs first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Final, Protocol

import typer

from events.answers.pods import Pod, PodStanding
from events.queue.labels import operators_labels
from events.runtime.clock import Clock, SystemClock
from podfleet.client.interrupts import interruptible
from podfleet.client.problems import Refused, Unreachable
from podfleet.commands.pods.rolling import (
    ENDED,
    REASON,
    Chosen,
    Cordon,
    Finish,
    Phase,
    Restart,
    Step,
    Unchanged,
    Wait,
    by_name,
    is_ours,
    outdated,
    steps,
)
from podfleet.connection import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_WRONG_USE, client, fail
from podfleet.output import AsJson, print_json, say, tell
from podfleet.parameters import seconds_of

PODS_MAX: Final = 10_000  # of all starts that are kept: no fleet of ours has more
AT_ONCE_MAX: Final = 1_000
LOOK_S: Final = 1.0
AWAY_S: Final = 600.0  # an update of the control plane itself takes less
LONGER_S: Final = 60.0  # that a cordon outlasts what it waits for; one of a killed update ends by itself
LIMIT_DEFAULT: Final = "12h"  # the longest attempt of the kinds that have limits
BACK_DEFAULT: Final = "15m"  # what it installs may have to be fetched first


class Fleet(Protocol):
    """The control plane of a fleet."""

    def pods(self) -> Iterator[Pod]: ...

    def cordon(self, name: str, reason: str, *, for_s: float | None = None) -> PodStanding: ...

    def uncordon(self, name: str) -> PodStanding: ...

    def restart(self, pod_id: str) -> Pod: ...

    def undrain(self, pod_id: str) -> Pod: ...


class Stopped(Exception):
    """The update ends at a pod; the text says which, and why."""


@dataclass(slots=True)
class Roller:
    """One rolling update. A pod may wait `limit_s` for its runs, and be away for `back_s`."""

    fleet: Fleet
    chosen: Chosen
    clock: Clock
    limit_s: float
    back_s: float
    done: list[str] = field(default_factory=list)
    restarted: dict[str, set[str]] = field(default_factory=dict)
    _since: dict[str, tuple[Phase, float]] = field(default_factory=dict)

    def run_once(self) -> bool:
        """Take the next steps; False when nothing is left. Raises `Stopped`, `ClientError`."""
        found = steps(self.pods(), self.chosen, self.restarted)
        for each in found:
            self._take(each)
        return bool(found)

    def pods(self) -> list[Pod]:
        return list(islice(self.fleet.pods(), PODS_MAX))

    def give_up(self) -> None:
        """Leave what is under way as it was: no order, and no cordon of ours. Raises `ClientError`."""
        for name, workers in by_name(self.pods()).items():
            for each in outdated(workers, self.chosen.version):
                if each.orders.restart and (is_ours(workers) or each.id in self.restarted.get(name, ())):
                    self._undo(each)
            if is_ours(workers):
                self.fleet.uncordon(name)

    def _take(self, step: Step) -> None:
        match step:
            case Cordon(pod):
                # of another's cordon nothing is taken: it says why, and stays
                if not self._is_cordoned(pod):
                    why, for_s = f"{REASON} to {self.chosen.version}", self.limit_s + self.back_s + LONGER_S
                    self.fleet.cordon(pod, why, for_s=for_s)
                self.restarted.setdefault(pod, set())
                say(f"{pod}: cordoned")
            case Restart(pod, workers):
                for each in workers:
                    self._restart(pod, each)
                say(f"{pod}: is ordered to restart")
            case Finish(pod, is_cordoned):
                if is_cordoned:
                    self.fleet.uncordon(pod)
                self.restarted.pop(pod, None)
                self._since.pop(pod, None)
                if pod not in self.done:
                    self.done.append(pod)
                say(f"{pod}: has {self.chosen.version}")
            case Wait(pod, phase, why):
                self._wait(pod, phase, why)
            case Unchanged(pod, version):
                raise Stopped(
                    f"{pod} came back with {version}, not {self.chosen.version}: what starts it does not "
                    "install what its control plane serves"
                )

    def _is_cordoned(self, pod: str) -> bool:
        workers = by_name(self.pods()).get(pod, [])
        return bool(workers) and workers[0].orders.cordon is not None

    def _restart(self, pod: str, worker: str) -> None:
        try:
            self.fleet.restart(worker)
        except Refused as error:
            if error.code != "pod_left":  # it has left by itself meanwhile
                raise
        self.restarted.setdefault(pod, set()).add(worker)

    def _undo(self, worker: Pod) -> None:
        try:
            self.fleet.undrain(worker.id)
        except Refused as error:
            if error.code != "pod_left":
                raise

    def _wait(self, pod: str, phase: Phase, why: str) -> None:
        """Wait within the limit of a phase. Raises `Stopped`."""
        known, since_s = self._since.get(pod, (None, 0.0))
        if known != phase:
            self._since[pod] = (phase, self.clock.monotonic_s())
            say(f"{pod}: {why}")
            return
        limit_s = self.limit_s if phase == "waits for its run" else self.back_s
        if self.clock.monotonic_s() - since_s > limit_s:
            raise Stopped(f"{pod}: after {limit_s:.0f} s it {why}")


def roll(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of pods (default: all).")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Only pods with this label; repeatable."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="VERSION", help="The version (default: the control plane's).")
    ] = None,
    at_once: Annotated[
        int, typer.Option(min=1, max=AT_ONCE_MAX, help="Pods that may be away at a time.")
    ] = 1,
    limit: Annotated[
        str, typer.Option(metavar="TIME", help="How long a pod's runs are waited for.")
    ] = LIMIT_DEFAULT,
    back: Annotated[str, typer.Option(metavar="TIME", help="How long a pod may be away.")] = BACK_DEFAULT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Name the pods, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Update the pods whose version differs from the control plane's, one after the other.

    Each is cordoned, finishes its runs, is restarted, and claims again when it is back in the version. The
    first pod that does not come back so ends it. What starts a worker has to install what its control plane
    serves (docs/operations.md). After Ctrl-C the same command goes on where this one stood.
    """
    labels, problems = operators_labels(None, tuple(label or ()))
    if problems:
        fail("\n".join(problems), EXIT_WRONG_USE)
    limit_s, back_s = float(seconds_of(limit, "--limit")), float(seconds_of(back, "--back"))
    control_plane = client()
    chosen = Chosen(to or control_plane.installation().version, frozenset(names or ()), labels, at_once)
    roller = Roller(control_plane, chosen, SystemClock(), limit_s, back_s)
    wanted = _wanted(roller, names or ())
    if dry_run:
        _name(wanted, chosen.version, as_json=as_json)
        return
    why, status = None, 0
    try:
        with interruptible():
            _run(roller)
    except KeyboardInterrupt:
        why, status = "interrupted: the same command goes on from here", EXIT_INTERRUPTED
    except Stopped as stopped:
        why, status = str(stopped), EXIT_FAILED
    if why is not None:
        tell(why)
        roller.give_up()
    left = sorted({each.pod for each in _wanted(roller, ())})
    if as_json:
        print_json({"version": chosen.version, "done": roller.done, "left": left, "stopped": why})
    else:
        say(f"{len(roller.done)} updated to {chosen.version}, {len(left)} left")
    if status:
        raise typer.Exit(status)


def _run(roller: Roller) -> None:
    """Go on until nothing is left; a control plane that is away is waited for."""
    never, away_since_s = threading.Event(), None
    while True:
        try:
            if not roller.run_once():
                return
            away_since_s = None
        except Unreachable:
            now_s = roller.clock.monotonic_s()
            away_since_s = now_s if away_since_s is None else away_since_s
            if now_s - away_since_s > AWAY_S:
                raise
        roller.clock.wait(never, LOOK_S)


def _wanted(roller: Roller, names: list[str] | tuple[str, ...]) -> list[Pod]:
    """Return the live workers that the update is about; a name that no live pod has ends the command."""
    fleet = by_name(roller.pods())
    live = {name for name, each in fleet.items() if any(one.state not in ENDED for one in each)}
    if unknown := [each for each in names if each not in live]:
        fail(f"no live pod is called {', '.join(unknown)}", EXIT_FAILED)
    return [
        each
        for workers in fleet.values()
        if roller.chosen.has(workers)
        for each in outdated(workers, roller.chosen.version)
    ]


def _name(workers: list[Pod], version: str, *, as_json: bool) -> None:
    if as_json:
        print_json([{"pod": each.pod, "worker": each.id, "version": each.version} for each in workers])
        return
    for each in workers:
        say(f"{each.pod}: {each.id} has {each.version}, not {version}")
    if not workers:
        say(f"every pod has {version}")
