"""What stands around every tab of a run: its name, its state and the other tabs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.responses import HTMLResponse

from control_plane.server.web.page_renderer import Live, Site
from control_plane.server.web.run_pages.tabs import OF_EVERY_RUN, Tab, tabs_of
from control_plane.server.web.sections import Placed, RunPage, placed, sections
from events.answers.kind_parts import in_json
from events.answers.runs import Run
from events.lifecycle import FINAL, Status
from events.runtime.errors import NotFound


@dataclass(frozen=True, slots=True)
class Frame:
    """A run, read for one of its tabs."""

    site: Site
    live: Live
    run: Run
    tab: str
    placed: Sequence[Placed]
    tabs: Sequence[Tab]

    async def show(self, template: str, **values: Any) -> HTMLResponse:
        """Return the tab, made by a template that extends `run/frame.html`."""
        return await self.site.show(
            template,
            **{
                "live": self.live,
                "run": in_json(self.run),
                "tabs": self.tabs,
                "tab": self.tab,
                "is_over": Status(self.run.status) in FINAL,
                "parts": [each.name for each in self.run.sections],
                **values,
                "sections": await sections(RunPage(self.site.deps, self.run), self.placed),
            },
        )


async def framed(site: Site, run_id: str, tab: str, *reads: str, topic: str = "run") -> Frame:
    """Return a run with what this tab needs of it: `reads`, and what its sections say.

    Raises `NotFound` for a tab that runs of its kind do not have.
    """
    live, reading = site.live(f"{topic}/{run_id}"), site.deps.reading

    def of_kind(kind: str) -> list[Placed]:
        return placed(kind, reading.parts.get(kind, ()))

    def wanted(kind: str) -> set[str]:
        return {*reads, *(name for each in of_kind(kind) if each.tab == tab for name in each.reads)}

    run = await reading.run(run_id, wanted)
    known = of_kind(run.kind)
    tabs = tabs_of(run, known)
    if tab not in OF_EVERY_RUN and tab not in [each.name for each in tabs]:
        raise NotFound("unknown_tab", f"a run of the kind {run.kind!r} has no tab {tab!r}")
    return Frame(site, live, run, tab, [each for each in known if each.tab == tab], tabs)
