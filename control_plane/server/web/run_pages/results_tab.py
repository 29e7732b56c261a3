"""The tab of a run's results: the table of a set with its order, its filters, its pages and its exports."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse

from control_plane.model.projection import artifact_id
from control_plane.reads.results.export import MEDIA_TYPES
from control_plane.reads.results.filters import FILTERS_MAX
from control_plane.reads.results.rows import UNKNOWN_SET
from control_plane.server.api.results import RowsPage
from control_plane.server.web.page_renderer import NOT_LIVE, Site
from control_plane.server.web.run_pages.frame import framed
from control_plane.server.web.run_pages.tabs import RESULTS
from events.answers.kinds.results import ResultRow
from events.runtime.errors import Rejected

TEMPLATE: Final = "run/results.html"


async def results_tab(site: Site, run_id: str, wanted: RowsPage) -> HTMLResponse:
    """Show a page of a result set. Raises `NotFound`, and `Rejected` for an unknown set or column."""
    frame = await framed(site, run_id, RESULTS)
    try:
        found = await site.deps.results.page(
            run_id, wanted.query(), limit=wanted.limit, after=wanted.after or None
        )
    except Rejected as error:
        if error.code != UNKNOWN_SET or wanted.set:
            raise
        return await frame.show(TEMPLATE, page=None)
    filters = [each for each in wanted.filter if each.strip()]
    return await frame.show(
        TEMPLATE,
        next=found.next,
        live=NOT_LIVE if wanted.after else frame.live,
        page=found,
        wanted=wanted,
        filters=filters,
        has_room=len(filters) < FILTERS_MAX,
        address=Addresses(run_id, found.set, found.attempt, wanted),
        outcomes=await site.deps.results.outcomes(run_id, found.set),
        outcome=found.outcome,
        formats=list(MEDIA_TYPES),
        has_key=bool(site.deps.settings.secrets_keys),
    )


class Addresses:
    """The addresses of the links of a page: another order, the next page, another set, a row, a file."""

    def __init__(self, run_id: str, set: str, attempt: int | None, wanted: RowsPage) -> None:
        self._path = f"/runs/{quote(run_id, safe='')}/results"
        self._run_id, self._attempt = run_id, attempt
        self._limit = wanted.limit
        self._kept: list[tuple[str, Any]] = [("set", set)]
        self._kept += [("q", wanted.q)] if wanted.q else []
        self._kept += [("filter", each) for each in wanted.filter if each.strip()]
        self._sort = wanted.sort

    def sorted_by(self, column: str) -> str:
        """Return the address in the order of a column; of one that is the order already, against it."""
        return self._with(sort=f"-{column}" if self._sort == column else column, limit=self._limit)

    def direction(self, column: str) -> str:
        """Return the order of a column, as `aria-sort` has it."""
        return {column: "ascending", f"-{column}": "descending"}.get(self._sort or "key", "none")

    def next(self, after: str) -> str:
        """Return the address of the next page."""
        return self._with(sort=self._sort, limit=self._limit, after=after)

    def row(self, key: str) -> str:
        """Return the address of a row, as one of this list."""
        return self._with(path="/row", sort=self._sort, key=key)

    def only(self, column: str, value: str) -> str:
        """Return the address of the rows whose column has a value, whatever else is filtered."""
        return f"{self._path}?{urlencode([self._kept[0], ('filter', f'{column}={value}')])}"

    def first(self) -> str:
        """Return the address of the first page."""
        return self._with(sort=self._sort, limit=self._limit)

    def of_set(self, name: str) -> str:
        """Return the address of another set."""
        return f"{self._path}?{urlencode({'set': name})}"

    def file(self, format: str) -> str:
        """Return the address of the rows as a file."""
        return f"/api{self._with(sort=self._sort, format=format, path='/export')}"

    @property
    def archive(self) -> str:
        """Return the address of the signed ZIP of all sets."""
        return f"/api{self._path}/export?format=zip"

    def detail(self, row: ResultRow) -> str:
        """Return the address of the artifact that a row names."""
        assert self._attempt is not None
        identity = artifact_id(self._run_id, self._attempt, row.detail or "")
        return f"/artifacts/{quote(identity)}"

    def _with(self, *, path: str = "", **fields: Any) -> str:
        given = [(name, value) for name, value in fields.items() if value is not None]
        return f"{self._path}{path}?{urlencode([*self._kept, *given])}"
