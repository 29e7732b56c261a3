"""The page that changes a group which is paused or closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from control_plane.model.groups.status import TRANSITIONS, Action, GroupStatus
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MaySubmit, revision_of
from control_plane.server.web.forms.fields import Unfit, typed_lines, typed_texts
from control_plane.server.web.forms.group import WORDS, GroupForm, is_whole, limits_of
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import see
from events.answers.groups import Group
from events.runtime.errors import Conflict, OutOfDate, Rejected

DECISIONS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class EditPages:
    """The form with what a group is, or with what was typed and its problems."""

    site: Site

    async def form(self, group_id: str) -> HTMLResponse:
        """Show a group in the form."""
        group = await self.site.deps.groups.reading.group(group_id)
        return await self._show(group, GroupForm.of(group))

    async def change(self, group_id: str, texts: Mapping[str, str], by: str) -> Response:
        """Change a group, if it is still as it was shown."""
        form = GroupForm.read({name: typed_lines(text) for name, text in texts.items()})
        reading, service = self.site.deps.groups.reading, self.site.deps.groups.service
        group = await reading.group(group_id)
        try:
            seen = int(revision_of(form.revision))
        except ValueError as error:
            return await self._show(group, form, [f"The page is too old: {error}"], 422)
        try:
            wanted = form.wanted(group)
            await service.edit(group_id, revision=seen, by=by, run=wanted.run, plan=wanted.plan)
        except Unfit as unfit:
            return await self._show(group, form, unfit.problems, 422)
        except OutOfDate as error:
            now = await reading.group(group_id)
            return await self._show(now, form, [error.message], status_of(error), since=seen)
        except (Rejected, Conflict) as error:
            return await self._show(group, form, [error.message], status_of(error))
        return see(_path(group_id))

    async def _show(
        self,
        group: Group,
        form: GroupForm,
        problems: Sequence[str] = (),
        code: int = 200,
        *,
        since: int | None = None,
    ) -> HTMLResponse:
        """Show the form; after a change by somebody else since a revision, with what that was."""
        if GroupStatus(group.status) not in TRANSITIONS[Action.EDIT]:
            detail = f"The group is {group.status}; pause it before you change it."
            return await self.site.problem(409, detail, back=_path(group.id))
        is_late = since is not None
        return await self.site.show(
            "group_edit.html",
            code,
            group=group,
            # whoever has seen what changed may save over it
            form=form.model_copy(update={"revision": str(group.revision)}) if is_late else form,
            limits=[(name, WORDS[name]) for name in limits_of(group)],
            is_whole=is_whole(group),
            problems=problems,
            is_late=is_late,
            differences=form.differences(group) if is_late else [],
            decisions=[each for each in group.journal if since is not None and each.n > since][
                : -DECISIONS_SHOWN - 1 : -1
            ],
        )


def router(site: Site) -> APIRouter:
    """Return the routes of the page."""
    routes = Routes(include_in_schema=False)
    pages = EditPages(site)

    @routes.get("/groups/{group_id}/edit")
    async def form(group_id: str, _: MaySubmit) -> HTMLResponse:
        return await pages.form(group_id)

    @routes.post("/groups/{group_id}/edit")
    async def change(group_id: str, principal: MaySubmit, request: Request) -> Response:
        return await pages.change(group_id, await typed_texts(request), principal.name)

    return routes


def _path(group_id: str) -> str:
    return f"/groups/{quote(group_id, safe='')}"
