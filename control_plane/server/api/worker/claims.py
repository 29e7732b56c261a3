"""The queue over HTTP, for pods without a database of their own: claim, renew, settle, release, report.

A pod authenticates by its key. A request about a claimed run also takes the run's token
(`Podfleet-Run-Token`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Query, Request
from msgspec import UNSET
from pydantic import Field

from control_plane.access.auth import Forbidden, Principal, is_still_admitted, require, sender_of
from control_plane.concurrency.rate_limit import RateLimited
from control_plane.model.presentation import plain
from control_plane.model.views.document_mapping import from_document
from control_plane.runs.claiming import WAIT_MAX_S, Claimer
from control_plane.server.api.contract.bodies import (
    NewClaim,
    PodLine,
    Release,
    Settlement,
    SoughtClaim,
)
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.deps import Deps
from events.answers.pods import PodOrders, ResetOrder
from events.answers.worker.claims import (
    ClaimAnswer,
    ClaimedRun,
    PodNode,
    PodNote,
    RunOrders,
    SettledAnswer,
    WaitingIn,
    Wakeup,
)
from events.kinds.declaring.queues import collections
from events.queue.abilities import Abilities
from events.queue.claims import Claim, Orders
from events.queue.labels import SAID_MAX
from events.queue.matching import Named, Seeker
from events.queue.notes import Note
from events.queue.rules import pod_name
from events.queue.settlement import End
from events.runtime.clock import timestamp
from events.runtime.errors import Conflict, Rejected
from events.text.key_text import RunToken, read_run_token

CLASSES_MAX: Final = 200  # without labels: those are matched here
CLASS_KEY_MAX: Final = 200

MayClaim = Annotated[Principal, Depends(require("claim"))]
Token = Annotated[str, Header(alias="Podfleet-Run-Token", max_length=200)]
ClassKey = Annotated[str, Field(max_length=CLASS_KEY_MAX)]
Classes = Annotated[list[ClassKey], Query(alias="class", min_length=1, max_length=CLASSES_MAX)]
# What the pod says of itself, each as name=value.
Said = Annotated[
    list[Annotated[str, Field(max_length=100)]] | None, Query(alias="label", max_length=SAID_MAX)
]
PodOf = Annotated[str | None, Query(alias="pod", max_length=200)]
WaitS = Annotated[float, Query(ge=0, le=WAIT_MAX_S)]


def sought(classes: Classes, principal: MayClaim, labels: Said = None, pod: PodOf = None) -> Named:
    """Return what a pod waits for, which says its labels and its name. Raises `Forbidden`."""
    if pod is not None:
        require_pod(principal, pod)
    said = {name: value for name, _, value in (each.partition("=") for each in labels or ())}
    return Named(frozenset(classes), said, None if pod is None else pod_name(pod))


Sought = Annotated[Named, Depends(sought)]


def router(deps: Deps) -> APIRouter:
    """Return the routes of the queue."""
    claimer = deps.claimer

    async def pace(request: Request, principal: MayClaim) -> None:
        sender = sender_of(request, principal)
        if sender is not None and (wait_s := deps.claims_throttle.wait_s(sender)):
            raise RateLimited("too many requests from this sender", wait_s)

    routes = Routes(tags=["claims"], dependencies=[Depends(pace)])

    _add_waits(routes, claimer)

    @routes.post("/api/claims/recover")
    async def recover(body: SoughtClaim, _: MayClaim) -> ClaimAnswer:
        found = await claimer.claims.recover(collections(body.mode), body.token)
        return ClaimAnswer(claim=None if found is None else shown(found), now=timestamp(deps.clock.now()))

    @routes.post("/api/claims/{run_id}/renew")
    async def renew(run_id: str, _: MayClaim, token: Token) -> RunOrders:
        run_token = held(run_id, token)
        found = await deps.runs.find(run_id)
        claimed = None if found is None else found.run.token_of(run_token.attempt)
        await deps.key_ring.require_unrevoked(claimed)
        return ordered(await claimer.claims.renew(run_token))

    @routes.post("/api/claims/{run_id}/settle")
    async def settle(run_id: str, body: Settlement, _: MayClaim, token: Token) -> SettledAnswer:
        how = End(body.outcome, body.code, body.message, body.stage, body.retryable)
        jitter = deps.ids.fraction()
        await claimer.claims.settle(held(run_id, token), how, body.last, jitter=jitter, root=body.root)
        return SettledAnswer(settled=True)

    @routes.post("/api/claims/{run_id}/release")
    async def release(run_id: str, body: Release, _: MayClaim, token: Token) -> SettledAnswer:
        how = End("preempted", body.code, body.message)
        await claimer.claims.settle(held(run_id, token), how, body.last, jitter=deps.ids.fraction())
        return SettledAnswer(settled=True)

    @routes.post("/api/pods")
    async def report(body: PodLine, principal: MayClaim) -> PodOrders:
        for named in (body.id, body.pod):
            require_pod(principal, named)
        orders = await claimer.report(body.model_dump(by_alias=True), key_id=principal.key_id)
        resets = [ResetOrder(**each) for each in orders["resets"]]
        suspects = list(await claimer.suspects(body.id))
        return from_document(PodOrders, orders, resets=resets, suspects=suspects)

    return routes


def seeker_of(body: NewClaim) -> Seeker:
    """Return the pod that claims; its name is its word, unless its key was made for one pod."""
    name = pod_name(body.pod)
    able = Abilities(frozenset(body.kinds), body.gpu_gib, body.region, body.labels, name)
    return Seeker(body.pod, body.mode, able)


def _add_waits(routes: APIRouter, claimer: Claimer) -> None:
    """Add the routes by which pods wait for a run."""

    @routes.get("/api/wakeups")
    async def wakeups(
        wanted: Sought, principal: MayClaim, request: Request, wait_s: WaitS = WAIT_MAX_S
    ) -> Wakeup:
        found = await claimer.hear(
            wanted, key_id=principal.key_id, wait_s=wait_s, is_gone=partial(_is_gone, request)
        )
        classes = [
            WaitingIn(collection=each.collection, class_key=each.class_key, priority=each.priority)
            for each in found or ()
        ]
        return Wakeup(waiting=found is not None, classes=classes)

    @routes.post("/api/claims")
    async def claim(body: NewClaim, principal: MayClaim, request: Request) -> ClaimAnswer:
        require_pod(principal, body.pod)
        taken = await claimer.claim(
            seeker_of(body),
            token=body.token,
            key_id=principal.key_id,
            wait_s=body.wait_s,
            is_gone=partial(_is_gone, request),
        )
        return ClaimAnswer(claim=None if taken is None else shown(taken))


def require_pod(principal: Principal, pod_id: str) -> None:
    """Require that a key of one pod is used for that pod. Raises `Forbidden`."""
    if principal.pod is not None and pod_id.partition("/")[0] != principal.pod:
        raise Forbidden("foreign_pod", f"this key was made for the pod {principal.pod}, not for {pod_id}")


async def _is_gone(request: Request) -> bool:
    """Say whether a waiting pod has disconnected, or its key was revoked."""
    return await request.is_disconnected() or not await is_still_admitted(request, request.headers, "claim")


def held(run_id: str, token: str) -> RunToken:
    """Return the content of a run token for this run. Raises `Rejected`, `Conflict`."""
    run_token = read_run_token(token)
    if run_token is None:
        raise Rejected("bad_run_token", "Podfleet-Run-Token is not the `runToken` of a claim")
    if run_token.run_id != run_id:
        raise Conflict("lease_lost", f"this token is not of run {run_id}")
    return run_token


def shown(claim: Claim) -> ClaimedRun:
    """Return a claim as the answer to its pod."""
    return ClaimedRun(
        collection=claim.collection,
        run_id=claim.run_id,
        attempt=claim.attempt,
        run_token=claim.run_token,
        lease_s=claim.lease_s,
        kind=claim.kind,
        spec=plain(claim.spec),
        hypothesis_id=claim.hypothesis_id,
        from_stage=claim.from_stage,
        traceparent=claim.traceparent,
        paused=claim.paused,
        notes=noted(claim.notes),
        secrets=list(claim.secrets) or UNSET,
        barrier=claim.barrier or UNSET,
    )


def ordered(orders: Orders) -> RunOrders:
    """Return the orders for the owner of a run."""
    return RunOrders(
        cancel=orders.cancel,
        paused=orders.paused,
        notes=noted(orders.notes),
        start_at=UNSET if orders.start_at is None else timestamp(orders.start_at),
        node=UNSET if (node := orders.node) is None else PodNode(**asdict(node)),
        preempt=orders.preempt or UNSET,
        now=UNSET if orders.now is None else timestamp(orders.now),
    )


def noted(notes: Sequence[Note]) -> list[PodNote]:
    """Return notes as the answer to a pod."""
    return [PodNote(number=each.number, text=each.text, by=each.by) for each in notes]
