"""The sections of a run's tabs: those of every run, and those of its kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from control_plane.model.kind_packages import rows
from control_plane.reads.kinds.errors import made
from control_plane.reads.kinds.loops import KindLoop
from control_plane.reads.kinds.parts import DETAILS, KindPart
from control_plane.server.deps import Deps
from control_plane.server.web.drawing.figures import figures, papers
from control_plane.store.database import Database
from events.answers.artifacts import Artifact
from events.answers.runs import Run
from events.runtime.errors import ConfigError

ROWS_SHOWN: Final = 100  # of a part without a template of its own


@dataclass(frozen=True, slots=True)
class RunPage:
    """The data for sections: the run as `Reading.run` returns it, with what they say that they read."""

    deps: Deps
    run: Run

    async def visible(self) -> Sequence[Artifact]:
        """Return the files of the run that a browser shows in place."""
        return (await self.deps.reading.visible_artifacts([self.run.id]))[self.run.id]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a tab: its order, the lowest first, and the template for the result of `load`.

    If `load` returns None, the tab does not have the section. `tab` is its name in the address; a section of
    a kind without one stands where the part does that it replaces. `reads` names what `Reading.run` has to
    read for it, `anchors` the ids that it makes, or how they begin where they end with a dash: links from
    before there were tabs lead to them.
    """

    rank: int
    template: str
    load: Callable[[RunPage], Awaitable[Mapping[str, Any] | None]]
    tab: str = ""
    reads: Sequence[str] = ()
    anchors: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A section in its tab, with the part of a run that it shows, where it is one of a kind's."""

    section: Section
    tab: str
    part: KindPart | None = None
    is_of_kind: bool = True

    @property
    def reads(self) -> Sequence[str]:
        """Return the names of what it needs of its run."""
        return [*self.section.reads, *([self.part.name] if self.part else ())]


@dataclass(frozen=True, slots=True)
class Shown:
    """A section with its data; `title` names one that the code of a kind makes."""

    template: str
    view: Mapping[str, Any]
    title: str | None = None


def placed(kind: str, parts: Sequence[KindPart]) -> list[Placed]:
    """Return the sections of a run of this kind, in their order; `parts` are those of the kind."""
    own = of_kinds().get(kind, ())
    ranks = {each.rank for each in own}
    by_rank = {part.rank: part for part in parts}
    found = [Placed(each, each.tab, is_of_kind=False) for each in OF_EVERY_KIND]
    for each in own:
        part = by_rank.get(each.rank)
        found.append(Placed(each, each.tab or (part.tab if part else DETAILS), part))
    found += [Placed(_of(part), part.tab, part) for part in parts if part.rank not in ranks]
    return sorted(found, key=lambda each: each.section.rank)


async def sections(page: RunPage, wanted: Sequence[Placed]) -> list[Shown]:
    """Return these sections of a run's page, each with its data. Raises `Transient`."""
    own = of_kinds().get(page.run.kind, ())
    problems = {each.name: each.problem for each in page.run.sections if each.problem}
    found: list[Shown | None] = []
    for each in wanted:
        section, part = each.section, each.part
        if not each.is_of_kind:
            view = await section.load(page)
            found.append(None if view is None else Shown(section.template, view))
        elif part is not None and part.name in problems:
            found.append(failed(part.title, problems[part.name]))
        else:
            loop = page.deps.reading.kind_loops.of(page.run.kind) if section in own else None
            title = section.template if part is None else part.title
            found.append(await _of_kind(section, title, page, loop))
    return [each for each in found if each is not None]


async def _of_kind(section: Section, title: str, page: RunPage, loop: KindLoop | None) -> Shown | None:
    """Return a section that the code of a kind makes, or what says that it failed. Raises `Transient`.

    `loop` is that of the kind, where it has one.
    """

    async def load_there(db: Database) -> Mapping[str, Any] | None:
        return await section.load(replace(page, deps=page.deps.on(db)))

    async def load() -> Shown | None:
        view = await (section.load(page) if loop is None else loop.run(load_there))
        return None if view is None else Shown(section.template, {**view}, title)

    return await made(page.run.kind, title, load, lambda words: failed(title, words))


def failed(title: str, problem: object) -> Shown:
    """Return the section that says in words that another one could not be made."""
    return Shown("sections/failed.html", {"title": title, "problem": problem})


def _of(part: KindPart) -> Section:
    """Return the section of a part that has no template: its rows as a table."""

    async def load(page: RunPage) -> Mapping[str, Any] | None:
        rows = page.run.rows[part.name]
        more = len(rows) > ROWS_SHOWN or part.name in page.run.truncated
        return {"part": part, "rows": rows[:ROWS_SHOWN], "more": more} if rows else None

    return Section(part.rank, "sections/part.html", load)


async def _validation(page: RunPage) -> Mapping[str, Any] | None:
    return {} if page.run.validations else None


async def _papers(page: RunPage) -> Mapping[str, Any] | None:
    found = papers(await page.visible())
    return {"papers": found} if found else None


async def _figures(page: RunPage) -> Mapping[str, Any] | None:
    whole = figures(await page.visible(), page.run.rows.get("nodes", [])).whole
    return {"figures": whole} if whole else None


async def _attempts(page: RunPage) -> Mapping[str, Any] | None:
    return {}


async def _usage(page: RunPage) -> Mapping[str, Any] | None:
    usage = page.run.usage
    return {} if usage.calls or usage.gpu_seconds or usage.cost_usd else None


OF_EVERY_KIND: Final = (
    Section(
        10, "sections/validation.html", _validation, "validation", ("validations",),
        ("v-", "t-", "j-", "revise"),
    ),
    Section(40, "sections/attempts.html", _attempts, "attempts", ("attempts",), ("traceback-",)),
    Section(50, "sections/stages.html", _attempts, "attempts", ("stages",)),
    Section(60, "sections/usage.html", _usage, "attempts", ("usage",)),
)  # fmt: skip
# For kinds whose runs write papers and draw figures.
PAPER: Final = (
    Section(20, "sections/papers.html", _papers, "paper", (), ("paper",)),
    Section(30, "sections/figures.html", _figures, "paper", ("nodes",)),
)


@cache
def of_kinds() -> Mapping[str, Sequence[Section]]:
    """Return the sections of each kind that has any. Raises `ConfigError`, for what is no section too."""
    found: Mapping[str, Sequence[Section]] = rows("sections", "SECTIONS")
    problems = [
        f"kind {kind!r}: {each!r} is no section of a page; uninstall its package or fix it"
        for kind, sections in found.items()
        for each in sections
        if not isinstance(each, Section)
        or (type(each.rank), type(each.template), type(each.tab)) != (int, str, str)
    ]
    if problems:
        raise ConfigError(problems)
    return found
