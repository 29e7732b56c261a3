"""The sections of a run's page: those of every run, and those of its kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from control_plane.model.kind_packages import rows
from control_plane.reads.kind_errors import made
from control_plane.reads.kind_loops import KindLoop
from control_plane.reads.kind_parts import KindPart
from control_plane.reads.reading import Json
from control_plane.server.deps import Deps
from control_plane.server.web.drawing.charts import line_chart
from control_plane.server.web.drawing.figures import figures, papers
from control_plane.server.web.drawing.timeline import timeline
from control_plane.server.web.side_by_side import curve, metrics
from control_plane.store.database import Database
from events.answers.artifacts import Artifact
from events.answers.runs import Run
from events.files.checkpoints import PREFIX
from events.runtime.errors import ConfigError

CURVES_SHOWN: Final = 12
ROWS_SHOWN: Final = 100  # of a part without a template of its own


@dataclass(frozen=True, slots=True)
class RunPage:
    """The data for sections: the run as `Reading.run` returns it, its pictures and numbers."""

    deps: Deps
    run: Run
    visible: Sequence[Artifact]
    numbers: Sequence[Json]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: its order, the lowest first, and the template for the result of `load`.

    If `load` returns None, the page does not have the section.
    """

    rank: int
    template: str
    load: Callable[[RunPage], Awaitable[Mapping[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class Shown:
    """A section with its data; `title` names one that the code of a kind makes."""

    template: str
    view: Mapping[str, Any]
    title: str | None = None


async def sections(page: RunPage) -> list[Shown]:
    """Return the sections of a run's page in their order, each with its data. Raises `Transient`."""
    kind = page.run.kind
    own = of_kinds().get(kind, ())
    ranks = {each.rank for each in own}
    parts = page.deps.reading.parts.get(kind, ())
    by_rank = {part.rank: part for part in parts}
    wanted: list[tuple[Section, KindPart | None]] = [(each, None) for each in OF_EVERY_KIND]
    wanted += [(each, by_rank.get(each.rank)) for each in own]
    wanted += [(_of(part), part) for part in parts if part.rank not in ranks]
    problems = {each.name: each.problem for each in page.run.sections if each.problem}
    found: list[Shown | None] = []
    for each, part in sorted(wanted, key=lambda pair: pair[0].rank):
        if each in OF_EVERY_KIND:
            view = await each.load(page)
            found.append(None if view is None else Shown(each.template, view))
        elif part is not None and part.name in problems:
            found.append(failed(part.title, problems[part.name]))
        else:
            loop = page.deps.reading.kind_loops.of(kind) if each in own else None
            found.append(await _of_kind(each, each.template if part is None else part.title, page, loop))
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
    found = papers(page.visible)
    return {"papers": found} if found else None


async def _figures(page: RunPage) -> Mapping[str, Any] | None:
    whole = figures(page.visible, page.run.rows.get("nodes", [])).whole
    return {"figures": whole} if whole else None


async def _usage(page: RunPage) -> Mapping[str, Any] | None:
    usage = page.run.usage
    return {} if usage.calls or usage.gpu_seconds or usage.cost_usd else None


async def _stages(page: RunPage) -> Mapping[str, Any] | None:
    now = page.deps.reading.clock.now()
    return {"timeline": timeline(page.run.stages, page.run.attempts, now)}


async def _metrics(page: RunPage) -> Mapping[str, Any] | None:
    drawn = [each for each in metrics([page.numbers]) if each.is_curve][:CURVES_SHOWN]
    curves = [(each.name, line_chart(curve(each))) for each in drawn]
    return {"curves": curves} if curves else None


async def _notes(page: RunPage) -> Mapping[str, Any] | None:
    return {"notes": page.run.notes}


async def _attempts(page: RunPage) -> Mapping[str, Any] | None:
    return {}


async def _artifacts(page: RunPage) -> Mapping[str, Any] | None:
    found = page.run.artifacts
    return {
        "results": [each for each in found if not each.name.startswith(PREFIX)],
        "checkpoints": [each for each in found if each.name.startswith(PREFIX)],
    }


async def _specification(page: RunPage) -> Mapping[str, Any] | None:
    return {}


OF_EVERY_KIND: Final = (
    Section(10, "sections/validation.html", _validation),
    Section(20, "sections/papers.html", _papers),
    Section(30, "sections/figures.html", _figures),
    Section(40, "sections/usage.html", _usage),
    Section(50, "sections/stages.html", _stages),
    Section(70, "sections/metrics.html", _metrics),
    Section(80, "sections/notes.html", _notes),
    Section(90, "sections/attempts.html", _attempts),
    Section(100, "sections/artifacts.html", _artifacts),
    Section(110, "sections/specification.html", _specification),
)


@cache
def of_kinds() -> Mapping[str, Sequence[Section]]:
    """Return the sections of each kind that has any. Raises `ConfigError`, for what is no section too."""
    found: Mapping[str, Sequence[Section]] = rows("sections", "SECTIONS")
    problems = [
        f"kind {kind!r}: {each!r} is no section of a page; uninstall its package or fix it"
        for kind, sections in found.items()
        for each in sections
        if not isinstance(each, Section) or (type(each.rank), type(each.template)) != (int, str)
    ]
    if problems:
        raise ConfigError(problems)
    return found
