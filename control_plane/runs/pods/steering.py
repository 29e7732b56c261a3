"""What people decide about a pod: cordon, drain, restart and release, and how each is taken back.

Law: an order to a pod's name outlives its worker; an order to a worker ends with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from control_plane.model.quarantine.decision import released
from control_plane.model.views.document_mapping import from_document
from control_plane.reads.pod_rules import PodRules
from control_plane.reads.reading import Reading, required
from control_plane.store.pods import Pods
from events.answers.pods import Pod, PodStanding
from events.queue.faults import boot_of
from events.queue.rules import pod_name
from events.runtime.errors import Conflict, Transient

REASON_CHARS_MAX: Final = 500
TRIES_MAX: Final = 20
DRAINED: Final = "drained"
ENDED: Final = ("stopped", "gone")


@dataclass(frozen=True, slots=True)
class PodSteering:
    """Carries out the decisions of people about pods. Raises `NotFound` for one that never reported."""

    pods: Pods
    rules: PodRules
    reading: Reading

    async def cordon(
        self, pod: str, reason: str, *, by: str, until: datetime | None = None, for_s: float | None = None
    ) -> PodStanding:
        """Keep a pod, by its name, from claiming; a further cordon replaces the one before."""
        name = await self._known(pod)
        await self.rules.store.cordon(name, reason, by, until, for_s)
        return await self._standing(name)

    async def uncordon(self, pod: str) -> PodStanding:
        """Let a pod claim again; a name that is not cordoned stays so."""
        name = pod_name(pod)
        if not await self.rules.store.uncordon(name):
            await self._known(pod)
        return await self._standing(name)

    async def drain(self, pod_id: str, *, by: str) -> Pod:
        """Cordon the pod, and let the worker leave after its run, with all slots of its start.

        A cordon without end stays as it is.
        """
        await self.reading.pod(pod_id)  # an order to a damaged line cannot be stored
        known = (await self.rules.store.in_force()).cordons.get(pod_name(pod_id))
        if known is None or known["until"] is not None:
            # Before the drain: the worker that leaves may be started again at once.
            await self.rules.store.cordon(pod_name(pod_id), DRAINED, by, None, None)
        await self.pods.order(boot_of(pod_id), drain=True)
        self.rules.changed()
        return await self.reading.pod(pod_id)

    async def restart(self, pod_id: str) -> Pod:
        """Let the worker leave after its run, with all slots of its start, to be started again.

        A drain of it stays: then nobody starts it again. Raises `Conflict` where the worker has left.
        """
        pod = await self.reading.pod(pod_id)
        if pod.state in ENDED:
            raise Conflict("pod_left", f"{pod_id} has left: whoever started it starts it again")
        await self.pods.order(boot_of(pod_id), restart=True)
        return await self.reading.pod(pod_id)

    async def undrain(self, pod_id: str) -> Pod:
        """Take a drain back, with its cordon, and a restart. Raises `Conflict` where the worker has left."""
        pod = await self.reading.pod(pod_id)
        if pod.state in ENDED:
            raise Conflict(
                "pod_left", f"{pod_id} has left; uncordon {pod_name(pod_id)} before its next start"
            )
        await self.pods.order(boot_of(pod_id), drain=False, restart=False)
        if pod.orders.cordon is not None and pod.orders.cordon.reason == DRAINED:
            await self.rules.store.uncordon(pod_name(pod_id))
        self.rules.changed()
        return await self.reading.pod(pod_id)

    async def release(self, pod: str, *, by: str) -> PodStanding:
        """Let a pod out of quarantine: what it did before speaks against it no more."""
        name = await self._known(pod)
        for _ in range(TRIES_MAX):
            revision, known = await self.rules.store.quarantines()
            decided = released(known, name, by, await self.rules.store.now())
            if all(each.pod.name != name for each in known) or await self.rules.store.keep(revision, decided):
                return await self._standing(name)
        raise Transient("contended", "the quarantines are changing concurrently; try again")

    async def _known(self, pod: str) -> str:
        name = pod_name(pod)
        required(await self.pods.any_named(name), "pod", name)
        return name

    async def _standing(self, name: str) -> PodStanding:
        self.rules.changed()
        rules = await self.rules.in_force()
        newest = await self.pods.any_named(name) or {}
        orders = rules.orders(name, newest.get("keyId"))
        return from_document(PodStanding, {**orders, "pod": name})
