"""Makes the response of every page from its reads and its template."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from fastapi.responses import HTMLResponse
from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
    pass_context,
    select_autoescape,
)
from jinja2.runtime import Context
from markupsafe import Markup
from msgspec import UNSET

from control_plane.access.auth import ASKER, FORM_FIELD
from control_plane.access.keys import Scope
from control_plane.model import kind_packages
from control_plane.reads.kinds.errors import words_for
from control_plane.runs.boards.run_table import AGAINST
from control_plane.runs.decisions import NOTE_CHARS_MAX
from control_plane.server.api.runs import RunsView
from control_plane.server.deps import Deps
from control_plane.server.web.drawing.figures import figures, papers
from control_plane.server.web.forms import columns
from control_plane.server.web.forms.fields import REVIEWER_CHARS_MAX
from control_plane.server.web.sections import Shown, failed
from control_plane.server.web.validation_tables import verdict
from control_plane.server.web.viewer import READ_BYTES_MAX, kind_of, view
from events import formatting
from events.answers.answer import Answer
from events.answers.conclusions import conclusion
from events.answers.runs import HumanVerdict, Run, RunRow
from events.kinds import KINDS, NOUNS, RUN_KINDS
from events.lifecycle import FINAL, Status
from events.models.advice import category_of
from events.runtime.errors import NotFound
from events.runtime.measured_clock import THE_STORES, ahead_words

HERE: Final = Path(__file__).resolve().parent
REVIEWS_LIMIT: Final = 10
RUNS_FOLLOWED: Final = 30  # each by itself
RENDERED_MAX: Final = 4  # pages at once
QUICK: Final = tuple(KINDS[name] for name in sorted(RUN_KINDS) if KINDS[name].quick is not None)


class Templates(Environment):
    """Templates in which `a[b]` is the value of a key of a mapping, never one of the mapping's methods.

    Pods choose names: a stage may be called `items`. A field of an answer has its name in JSON; one that JSON
    omits is undefined.
    """

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Answer):
            return self._field(obj, argument)
        if not isinstance(obj, Mapping):
            return super().getitem(obj, argument)
        return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._field(obj, attribute) if isinstance(obj, Answer) else super().getattr(obj, attribute)

    def _field(self, answer: Answer, name: Any) -> Any:
        field = fields_of(type(answer)).get(name)
        value = UNSET if field is None else getattr(answer, field)
        return self.undefined(obj=answer, name=name) if value is UNSET else value


@cache
def fields_of(kind: type[Answer]) -> Mapping[str, str]:
    """Return the fields by their names in JSON."""
    return dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


def _of_kinds() -> dict[str, BaseLoader]:
    """Return the loader of each kind's templates, which are named `KIND/FILE`."""
    return {kind: FileSystemLoader(folder) for kind, folder in kind_packages.templates().items()}


@cache
def templates() -> Templates:
    """Return the templates of all pages, which this process compiles once."""
    loaded = Templates(
        loader=ChoiceLoader([FileSystemLoader(HERE / "templates"), PrefixLoader(_of_kinds())]),
        autoescape=select_autoescape(["html"], default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ahead = partial(ahead_words, whose=THE_STORES)
    loaded.filters |= {**formatting.FILTERS, "verdict": verdict, "conclusion": conclusion, "ahead": ahead}
    loaded.globals |= {
        "all_columns": columns.COLUMNS,
        "usual_columns": columns.USUAL,
        "form_token": form_token,
        "of_kind": of_kind,
        "may": may,
        "nouns": NOUNS,
        "quick_kinds": QUICK,
        "reader": reader,
        "signed_in": signed_in,
        "between": formatting.between,
        "line_chars_max": formatting.LINE_SHOWN_CHARS,
        "next_steps": formatting.NEXT_STEPS,
        "category_of": category_of,
        "fault_words": formatting.FAULT_WORDS,
        "note_chars_max": NOTE_CHARS_MAX,
        "reviewer_chars_max": REVIEWER_CHARS_MAX,
    }
    return loaded


class Pages:
    """Renders templates under a strict content security policy."""

    def __init__(self, *file_origins: str) -> None:
        # Plots are shown from the storage's own origin, or sandboxed: what a run made never runs in ours.
        files = " ".join(file_origins)
        self._headers = {
            "Content-Security-Policy": (
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                f"img-src 'self' {files}; frame-src 'self' {files}; "
                "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
            ),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Cache-Control": "no-store",
        }

    def piece(self, name: str, value: Any) -> str:
        """Return one row, rendered by the macro of this name."""
        return str(getattr(templates().get_template("macros.html").module, name)(value))

    def page(self, name: str, code: int = 200, **values: Any) -> HTMLResponse:
        """Return a rendered page; it shows how many runs wait for a review if that is known."""
        html = (
            templates()
            .get_template(name)
            .render(**{"waiting": 0, "running_now": {}, "back": None, "live": NOT_LIVE, **values})
        )
        return HTMLResponse(html, code, self._headers)


@pass_context
def of_kind(context: Context, kind: str, section: Shown) -> Markup:
    """Return a section whose template a kind brings; where that fails, it says so in words."""
    assert section.title
    try:
        return _section(context, section)
    except BaseException as error:  # noqa: BLE001 - a package may do anything
        return _section(context, failed(section.title, words_for(kind, section.title, error)))


def _section(context: Context, section: Shown) -> Markup:
    template = templates().get_template(section.template)
    shown = template.render({**context.get_all(), "view": section.view})
    return Markup(shown)  # noqa: S704 - a template escapes what it shows


def form_token() -> Markup:
    """Return the token that every form of a signed-in browser has to send."""
    asker = ASKER.get()
    if asker is None or asker.form_token is None:
        return Markup()
    return Markup('<input type="hidden" name="{}" value="{}">').format(FORM_FIELD, asker.form_token)


def may(scope: Scope) -> bool:
    """Say whether the reader of the page may change something."""
    asker = ASKER.get()
    return asker is None or scope in asker.scopes


def reader() -> str | None:
    """Return the name of the key or user that reads the page, by which its runs are found."""
    asker = ASKER.get()
    return None if asker is None else asker.name


def signed_in() -> str | None:
    """Return the name of the person who is signed in with this browser."""
    asker = ASKER.get()
    return None if asker is None or asker.form_token is None else asker.name


@dataclass(frozen=True, slots=True)
class Live:
    """The topics whose changes a page gets, and the position to begin at, from before its data was read."""

    topics: Sequence[str] = ()
    since: str = ""


NOT_LIVE: Final = Live()


@dataclass(frozen=True, slots=True)
class Site:
    """The pages of one control plane."""

    deps: Deps
    pages: Pages
    # Threads are few, and what is read from the storage needs some as well.
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(RENDERED_MAX))

    def live(self, *topics: str) -> Live:
        """Return the live topics of a page; called before the data of the page is read."""
        return Live(topics, self.deps.feed.token or "")

    async def runs(self, wanted: RunsView) -> HTMLResponse:
        """Show the runs that match, the newest first."""
        if wanted.mine:  # from here on by name: what acts on all runs of the page has to name them
            wanted = wanted.model_copy(update={"mine": False, "by": reader()})
        live = self.live("runs")
        shown, fields = columns.chosen(wanted.columns), wanted.fields()
        sort = wanted.sort or None
        page = await self.deps.run_table.page(wanted.filters(), wanted.limit, wanted.after, fields, sort)
        own = [*map(str, fields)]
        chosen = wanted.model_dump(exclude={"after", "columns"}, exclude_none=True, exclude_defaults=True)
        if tuple(shown) != columns.USUAL or own:
            chosen["columns"] = ",".join([*shown, *own])
        sorted_by = (sort or "").removeprefix(AGAINST)
        return await self.show(
            "runs.html",
            live=live,
            page=page,
            sieve=wanted.model_dump(exclude={"after", "limit", "columns", "sort", "mine"}, exclude_none=True),
            columns=shown,
            own=own if not sorted_by or sorted_by in own else [*own, sorted_by],
            typed=", ".join(own),
            chosen=chosen,
            statuses=list(Status),
            kinds=sorted(RUN_KINDS),
            wanted=wanted,
        )

    async def artifact(self, artifact_id: str) -> HTMLResponse:
        """Show a file; one that a browser would execute is shown as text, or only named."""
        return await self.show("artifact.html", **await self.file(artifact_id))

    async def file(self, artifact_id: str) -> Mapping[str, Any]:
        """Return a file and its view, for a template. Raises `NotFound`, and what refuses its content."""
        found = await self.deps.reading.artifact(artifact_id)
        content = b""
        if kind_of(found.name, found.content_type) in ("table", "text"):
            content = await self.deps.inspector.beginning(
                found.name, found.key, found.size, found.sha256, limit=READ_BYTES_MAX
            )
        # beside the event loop: what a pod wrote decides how long it takes
        shown = await asyncio.to_thread(view, found.name, found.content_type, content, found.size)
        return {"artifact": found, "view": shown}

    async def reviews(self, after: str | None = None, done: str | None = None) -> HTMLResponse:
        """Show the runs that wait for a review, papers beside scores; `done` is the run just reviewed."""
        live = self.live("runs")
        waiting, older = await self.deps.reading.reviewed(REVIEWS_LIMIT, after)
        shown = [(each, papers(each.visible), figures(each.visible, [])) for each in waiting]
        return await self.show(
            "reviews.html",
            live=live,
            reviews=shown,
            older=older,
            done=await self._verdict(done),
            is_keyless=await self.deps.authenticator.is_open(),
        )

    async def problem(self, code: int, detail: str, *, back: str) -> HTMLResponse:
        """Return a page with the problem, and a link back."""
        return await self.show("problem.html", code, status=code, detail=detail, back=back)

    async def human_verdict(self, run_id: str) -> HumanVerdict | None:
        """Return a person's verdict on a run; None if there is none."""
        return (await self.deps.reading.run(run_id)).human_verdict or None

    async def _verdict(self, run_id: str | None) -> Run | None:
        """Return the run if it has a verdict by now, else None."""
        if run_id is None:
            return None
        try:
            run = await self.deps.reading.run(run_id)
        except NotFound:
            return None
        return run if run.human_verdict else None

    async def show(self, name: str, code: int = 200, **values: Any) -> HTMLResponse:
        """Return a page, with the data that every page shows."""
        waiting, running = await asyncio.gather(
            self.deps.reading.waiting_for_people(), self.deps.reading.running([each.name for each in QUICK])
        )
        async with self._turns:
            # beside the event loop: what a pod said decides how long it takes
            return await asyncio.to_thread(
                self.pages.page, name, code, waiting=waiting, running_now=running, **values
            )


def topics_of(runs: Sequence[RunRow]) -> Sequence[str]:
    """Return the topics of a list of runs: the runs that may still change, or all runs if those are many.

    The tabs of a browser share one stream, and its address contains the topics of all tabs.
    """
    moving = [f"run/{run.id}" for run in runs if Status(run.status) not in FINAL]
    return moving if len(moving) <= RUNS_FOLLOWED else ("runs",)
