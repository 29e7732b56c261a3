"""The page of projects: what each may have, what it has used and whose turn it is; a form to set one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, Response

from control_plane.server.api.access.projects import ProjectBody, listed, set_project
from control_plane.server.api.contract.bodies import Body, ProjectName
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import MayRead
from control_plane.server.web.forms import fields
from control_plane.server.web.forms.fields import Unfit, read_body
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import see
from events.runtime.errors import Conflict


class _Named(Body):
    """The name of a project, as it was typed."""

    name: ProjectName


class ProjectForm(fields.Form):
    """A project to set; a quota that is left empty is none."""

    name: str = ""
    weight: str = ""
    gpus: str = ""
    gpu_hours: str = ""
    usd: str = ""

    def read(self) -> tuple[str, ProjectBody]:
        """Return the project. Raises `Unfit`."""
        name = read_body(_Named, {"name": self.name.strip()}).name
        quotas = {each: _number(getattr(self, each)) for each in ("gpus", "gpu_hours", "usd")}
        weight = {} if not self.weight.strip() else {"weight": _number(self.weight)}
        return name, read_body(ProjectBody, {**weight, "quotas": quotas})


def _number(text: str) -> float | str | None:
    """Return a typed number; None for nothing, and what is none as it is, which the body refuses."""
    try:
        return float(text) if text.strip() else None
    except ValueError:
        return text


def router(site: Site) -> APIRouter:
    """Return the routes of the page."""
    routes = Routes(include_in_schema=False)

    async def page(
        form: ProjectForm | None = None, problems: Sequence[str] = (), code: int = 200
    ) -> HTMLResponse:
        found = await listed(site.deps)
        return await site.show(
            "projects.html", code, projects=found, form=form or ProjectForm(), problems=problems
        )

    @routes.get("/projects")
    async def all_of_them(_: MayRead) -> HTMLResponse:
        return await page()

    @routes.post("/projects")
    async def put(principal: MaySteer, form: Annotated[ProjectForm, Form()]) -> Response:
        try:
            name, body = form.read()
            await set_project(site.deps, name, body, by=principal.name)
        except Unfit as unfit:
            return await page(form, unfit.problems, 422)
        except Conflict as error:
            return await page(form, [error.message], status_of(error))
        return see(f"/projects#p-{name}")

    return routes
