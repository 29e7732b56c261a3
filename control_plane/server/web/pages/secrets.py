"""The page of secrets: their names, who set them, which waiting runs name them; forms to set and remove."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response

from control_plane.access.secrets.vault import WantedSecret
from control_plane.server.api.access.secrets import SecretBody, listed
from control_plane.server.api.contract.bodies import Body, SecretName
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.web.forms import fields
from control_plane.server.web.forms.fields import Unfit, read_body, typed_lines
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import carried_out, see
from events.runtime.errors import Conflict, Rejected

WAITING_MAX: Final = 500  # runs of one page
SHOWN_MAX: Final = 5  # runs of one secret
ALL: Final = "*"


class _Named(Body):
    """The name of a secret, as it was typed."""

    name: SecretName


class SecretForm(fields.Form):
    """A secret to set; `kinds` and `keys` are lists with commas, * for all. Its value is not shown again."""

    name: str = ""
    value: str = ""
    kinds: str = ""
    keys: str = ""

    def wanted(self, by: str) -> WantedSecret:
        """Return the secret. Raises `Unfit`."""
        name = read_body(_Named, {"name": self.name.strip()}).name
        lists = {"kinds": _listed(self.kinds), "keys": _listed(self.keys)}
        body = read_body(SecretBody, {"value": typed_lines(self.value), **lists})
        return WantedSecret(name=name, value=body.value, by=by, kinds=body.kinds, keys=body.keys)


def _listed(text: str) -> list[str] | None:
    """Return the names in a list with commas; None for an empty one, which leaves all as it is."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    return [] if names == [ALL] else names or None


def router(site: Site) -> APIRouter:
    """Return the routes of the page."""
    routes = Routes(include_in_schema=False)
    vault = site.deps.vault

    async def page(
        wanted: Page, form: SecretForm | None = None, problems: Sequence[str] = (), code: int = 200
    ) -> HTMLResponse:
        found = await listed(site.deps, wanted)
        waiting: dict[str, list[Any]] = defaultdict(list)
        runs = await vault.store.waiting([each.id for each in found.items], WAITING_MAX)
        for run in runs:
            for name in run["secrets"]:
                waiting[name].append(run)
        return await site.show(
            "secrets.html",
            code,
            page=found,
            named_in=waiting,
            is_partial=len(runs) == WAITING_MAX,
            shown_max=SHOWN_MAX,
            has_key=vault.cipher.first is not None,
            form=form or SecretForm(),
            problems=problems,
        )

    @routes.get("/secrets")
    async def all_of_them(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        return await page(wanted)

    @routes.post("/secrets")
    async def put(principal: MaySteer, form: Annotated[SecretForm, Form()]) -> Response:
        try:
            await vault.set(form.wanted(principal.name))
        except Unfit as unfit:
            return await page(Page(), form, unfit.problems, 422)
        except (Rejected, Conflict) as error:
            return await page(Page(), form, [error.message], status_of(error))
        return see(f"/secrets#s-{quote(form.name.strip(), safe='')}")

    @routes.post("/secrets/{secret_id}/remove")
    async def remove(secret_id: SecretName, _: MaySteer) -> Response:
        return await carried_out(site, vault.remove(secret_id), "/secrets")

    return routes
