"""Puts pods in quarantine by what they did, and tries them again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from control_plane.model.quarantine.decision import LOOKED_BACK, Quarantine, decide
from control_plane.model.quarantine.evidence import AttemptEnd, Identity, Member
from control_plane.model.views.pods import abilities_of, is_leaving, require_form
from control_plane.model.views.readable import those_readable
from control_plane.reads.reading import SILENT_AFTER
from control_plane.store.pods import Pods
from control_plane.store.queue.attempt_ends import AttemptEnds
from control_plane.store.queue.pod_rules import RuleStore
from events.queue.rules import Rules, pod_name

log = logging.getLogger(__name__)

TICK_S: Final = 5.0


@dataclass(slots=True)
class Quarantiner:
    """Watches how attempts end. Several replicas may run it at once: each change is a compare-and-set."""

    rules: RuleStore
    pods: Pods
    ends: AttemptEnds
    _classes: dict[str, str] = field(default_factory=dict)  # of the runs of the last look
    _keys: dict[str, Any] = field(default_factory=dict)  # of its workers

    async def run_once(self) -> int:
        """Do one round; return how many pods were put in quarantine, tried again, or forgotten."""
        revision, known = await self.rules.quarantines()
        now = await self.rules.now()
        rules = await self.rules.in_force()
        members = _members(await self.pods.live(now - SILENT_AFTER), rules)
        decided = decide(known, members, await self._ends(now - LOOKED_BACK), now)
        if decided == known or not await self.rules.keep(revision, decided):
            return 0
        changed = [each for each in decided if each not in known]
        for each in changed:
            _tell(each)
        return len(changed) + len(known) - len([each for each in known if each in decided])

    async def _ends(self, since: datetime) -> list[AttemptEnd]:
        found = await self.ends.newest(since)
        runs, pods = {each["runId"] for each in found}, {str(each.get("pod")) for each in found}
        self._classes = _kept(self._classes, runs) | await self.ends.classes(runs - self._classes.keys())
        self._keys = _kept(self._keys, pods) | await self.ends.keys(pods - self._keys.keys())
        return [
            AttemptEnd(
                pod=Identity(pod_name(each["pod"]), _text(self._keys[each["pod"]])),
                run_id=each["runId"],
                attempt=each["attempt"],
                class_key=self._classes[each["runId"]],
                claimed_at=each["claimedAt"],
                ended_at=each["endedAt"],
                is_completed=each["outcome"] == "completed",
                code=each["code"],
            )
            for each in found
            # An end that is told before its claim lacks the pod for a moment.
            if each.get("pod") in self._keys and each["runId"] in self._classes and each.get("claimedAt")
        ]


def _kept(known: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: known[name] for name in names if name in known}


def _members(live: Iterable[Mapping[str, Any]], rules: Rules) -> list[Member]:
    """Return the live pods; of several workers of one the last that reported.

    Its GPU faults are those of all, where each has one: a slot whose card is lost leaves runs to the others.
    """
    found: dict[Identity, list[Member]] = {}
    for member in those_readable("pod", live, lambda each: _member(each, rules)):
        found.setdefault(member.pod, []).append(member)
    return [replace(each[0], gpu_faults=_faults_of_all(each)) for each in found.values()]


def _faults_of_all(workers: Sequence[Member]) -> tuple[str, ...]:
    if not all(each.gpu_faults for each in workers):
        return ()
    return tuple(dict.fromkeys(fault for each in workers for fault in each.gpu_faults))


def _member(each: Mapping[str, Any], rules: Rules) -> Member:
    require_form(each)
    pod = Identity(pod_name(each["_id"]), each.get("keyId"))
    capabilities, telemetry = each.get("capabilities") or {}, each.get("telemetry") or {}
    return Member(
        pod=pod,
        # by labels and name each pod would be the only one of its class
        abilities=replace(abilities_of(each), labels={}, pod=None),
        device=_text(capabilities.get("device")),
        gpu_faults=tuple(name for name in telemetry.get("gpuFaults") or () if isinstance(name, str)),
        is_sound=all(check["ok"] for check in each.get("checks") or ()),
        takes=not is_leaving(each) and pod.name not in rules.cordons,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _tell(each: Quarantine) -> None:
    told = {"pod": each.pod.name, "why": each.reason, "until": each.try_at.isoformat()}
    if each.is_held:
        log.warning("pod.quarantined", extra=told)
    else:
        log.info("pod.tried_again", extra=told)
