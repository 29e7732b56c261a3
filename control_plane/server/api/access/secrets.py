"""Secrets by name: set, listed and removed by people, and handed to the attempt whose run names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, Field, StringConstraints

from control_plane.access.auth import Forbidden
from control_plane.access.keys import NAME_CHARS_MAX
from control_plane.access.secrets.vault import WantedSecret
from control_plane.model.run import Run
from control_plane.model.views.readable import readable
from control_plane.reads import paging
from control_plane.reads.reading import listing
from control_plane.server.api.contract.bodies import Body, SecretName, ShortText, Storable
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.files.artifacts import MayIngest
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import THE_SAME, MayRead, Page
from control_plane.server.deps import Deps
from events.answers.access.secrets import RotatedSecrets, Secret, SecretValues
from events.answers.answer import Listing
from events.lifecycle import Status
from events.runtime.errors import Conflict, Transient
from events.text.secret_names import USER_TOKEN, VALUE_BYTES_MAX, fault_of_value

LIST_MAX: Final = 100


def _value(value: str) -> str:
    if fault := fault_of_value(value):
        raise ValueError(fault)
    return value


KeyName = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARS_MAX), Storable]


class SecretBody(Body):
    """The value of a secret; runs of `kinds` may have it, if keys of the names `keys` name it.

    Without `kinds` or `keys` a secret that is there keeps the list that it has. An empty list allows all.
    """

    value: Annotated[
        str, StringConstraints(min_length=1, max_length=VALUE_BYTES_MAX), AfterValidator(_value)
    ] = Field(repr=False)
    kinds: Annotated[list[Annotated[ShortText, Storable]], Field(max_length=LIST_MAX)] | None = None
    keys: Annotated[list[KeyName], Field(max_length=LIST_MAX)] | None = None


def router(deps: Deps) -> APIRouter:
    """Return the routes of secrets."""
    routes = Routes(tags=["secrets"])
    vault = deps.vault

    @routes.get("/api/secrets")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Listing[Secret]:
        return await listed(deps, wanted)

    @routes.put("/api/secrets/{secret_id}", status_code=201, responses=THE_SAME)
    async def put(secret_id: SecretName, body: SecretBody, principal: MaySteer, response: Response) -> Secret:
        wanted = WantedSecret(
            name=secret_id, value=body.value, by=principal.name, kinds=body.kinds, keys=body.keys
        )
        found = await vault.set(wanted)
        response.status_code = 201 if found["createdAt"] == found["setAt"] else 200
        response.headers["Location"] = "/api/secrets"
        return shown(found)

    @routes.delete("/api/secrets/{secret_id}", status_code=204)
    async def remove(secret_id: SecretName, _: MaySteer) -> None:
        await vault.remove(secret_id)

    @routes.post("/api/secret-rotations")
    async def rotate(_: MaySteer) -> RotatedSecrets:
        found = await vault.rotate()
        count, unreadable = await deps.webhooks.reseal()
        unreadable = [*found.unreadable, *unreadable]
        return RotatedSecrets(key_id=found.key_id, count=found.count + count, unreadable=unreadable)

    @routes.post("/api/runs/{run_id}/secrets")
    async def hand(run_id: str, principal: MayIngest, renewal: bool = False) -> SecretValues:
        """Return the values that the run names to the attempt whose lease is not over, and to nobody else.

        A run that is being canceled gets none, nor an attempt whose key was revoked. A `renewal` is of the
        token of the run's user alone.
        """
        attempt = principal.attempt
        if attempt is None or attempt.run_id != run_id:
            raise Forbidden("foreign_run", f"send the run token that the claim of run {run_id} gave")
        found = await deps.runs.find(run_id)
        until = None if found is None else found.run.leased_until(attempt.attempt)
        if found is None or until is None:
            raise Conflict("lease_lost", f"attempt {attempt.attempt} of run {run_id} does not hold the run")
        if until <= deps.clock.now():
            raise Transient("lease_over", "the lease is over: renew it, and ask again")
        if found.run.status is Status.CANCELING:  # no conflict: the attempt still says how it ended
            raise Transient("being_canceled", "the run is being canceled, and gets no secrets")
        await deps.key_ring.require_unrevoked(found.run.token_of(attempt.attempt))
        return await _handed(deps, found.run, is_renewal=renewal)

    return routes


async def _handed(deps: Deps, run: Run, *, is_renewal: bool) -> SecretValues:
    """Return the values that a run names, or the token of its user alone. Raises `Transient`."""
    stored = [name for name in run.secrets if name != USER_TOKEN]
    handed = await deps.vault.hand([] if is_renewal else stored, run.kind)
    values, missing = dict(handed.values), list(handed.missing)
    if len(stored) == len(run.secrets):
        return SecretValues(values=values, missing=missing)
    access = None
    if deps.entrance is not None and run.user_id is not None:
        access = await deps.entrance.grants.access(run.user_id)
    if access is None:
        return SecretValues(values=values, missing=[*missing, USER_TOKEN])
    values[USER_TOKEN] = access.token
    return SecretValues(values=values, missing=missing, renew_in_s=access.renew_in_s)


async def listed(deps: Deps, wanted: Page) -> Listing[Secret]:
    """Return a page of secrets by name, without their values."""
    after = None if wanted.after is None else paging.decode("secrets", wanted.after, str)
    return listing("secrets", await deps.vault.store.page(after, paging.limited(wanted.limit)), shown)


def shown(secret: Mapping[str, Any]) -> Secret:
    """Return a stored secret as an answer, without its value."""
    return readable(Secret, "secret", secret)
