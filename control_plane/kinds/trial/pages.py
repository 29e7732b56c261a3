"""The pages of tasks: the list, one with its experiments, several beside each other, and the form."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import AfterValidator

from control_plane.kinds.trial.charts import (
    BEST_COLOR,
    OTHER_COLOR,
    latency_figure,
    objective_bars,
    swatch,
)
from control_plane.kinds.trial.exchange import MEDIA, Format, exported, in_csv, read_task
from control_plane.kinds.trial.forms import (
    ON,
    TaskForm,
    accepted,
    field_of,
    parts_of,
    preset_of,
    presets_of,
    rows_of,
    scenario_words,
)
from control_plane.kinds.trial.known_models import known_models
from control_plane.kinds.trial.reads import TaskReads
from control_plane.kinds.trial.service import TaskService
from control_plane.model.groups.plan import plan_of
from control_plane.reads.results.rows import ResultQuery
from control_plane.reads.studies import study_view, told_with
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, MaySubmit, Page, revision_of
from control_plane.server.web.forms.fields import Unfit, typed_texts
from control_plane.server.web.page_renderer import NOT_LIVE, Live, Site
from control_plane.server.web.pages.form_actions import carried_out, see
from control_plane.server.web.pages.groups.charts import chosen_rows, history, parallel
from control_plane.server.web.pages.groups.routes import importance_rows, shown_trials
from control_plane.server.web.pages.groups.study_charts import study_figures
from events.answers.kinds.tasks import Task
from events.kinds.trial import HEADLINE, KIND, SCENARIOS
from events.models.engines import ENGINES
from events.runtime.errors import Conflict, NotFound, OutOfDate, Rejected

EXPERIMENTS_SHOWN: Final = 200
COMPARED_MAX: Final = 8
ROWS_MAX: Final = 200  # measurements of a run that are drawn
DONE: Final = {"created": "Task created", "updated": "Task updated", "started": "Task started"}
MARKS: Final = {
    "PENDING": ("○", "QUEUED"), "RUNNING": ("▶", "RUNNING"), "COMPLETED": ("✓", "COMPLETED"),
    "FAILED": ("✗", "FAILED"), "CANCELLED": ("–", "CANCELED"), "pending": ("○", "QUEUED"),
    "deploying": ("▶", "RUNNING"), "benchmarking": ("▶", "RUNNING"), "success": ("✓", "COMPLETED"),
    "failed": ("✗", "FAILED"), "cancelled": ("–", "CANCELED"),
}  # fmt: skip
# What of the best experiments stands beside each other.
COMPARED: Final = (
    "tokens_out_per_s", "requests_per_s", "goodput_per_s", "ttft_p50_s", "ttft_p99_s", "tpot_p50_s",
    "e2e_mean_s", "e2e_p99_s", "error_rate",
)  # fmt: skip
NUMBERS: Final = tuple(each for each in HEADLINE if each.type == "number")

Revision = Annotated[str, Form(max_length=30), AfterValidator(revision_of)]
Ids = Annotated[list[str], Query(max_length=COMPARED_MAX)]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskPages:
    """The pages, with the reads and templates that they need."""

    site: Site
    reads: TaskReads
    service: TaskService

    async def all(self, wanted: Page, problems: Sequence[str] = (), code: int = 200) -> HTMLResponse:
        """Show the tasks, and the form that imports one."""
        live = NOT_LIVE if problems else self.site.live("tasks", "groups")
        page = await self.reads.page(wanted.limit, wanted.after)
        return await self.site.show(
            f"{KIND.name}/tasks.html", code, live=live, page=page, marks=MARKS, problems=problems
        )

    async def form(
        self,
        form: TaskForm,
        *,
        task_id: str | None = None,
        unfit: Unfit | None = None,
        code: int = 200,
        outlook: str = "",
        is_late: bool = False,
    ) -> HTMLResponse:
        """Show the form of a new task, or of one that there is."""
        engines = [(each, _rows(name, form), presets_of(name)) for name, each in ENGINES.items()]
        models = await known_models(self.site.deps.reading)
        return await self.site.show(
            f"{KIND.name}/task_form.html",
            code,
            form=form,
            task_id=task_id,
            engines=engines,
            numbers=NUMBERS,
            parts=parts_of(form, unfit),
            problems=unfit.problems if unfit else (),
            outlook=outlook,
            is_late=is_late,
            scenarios=scenario_words(form.traffic_scenarios),
            models=models.names,
            where=models.words(form.model_id.strip()),
        )

    async def outlook(self, form: TaskForm, by: str) -> str:
        """Return what a typed task would take. Raises `Unfit`, `Rejected`."""
        body = form.body()
        await self.service.require_valid("new", body, by)
        past = await self.site.deps.estimates.of_kind(KIND.name)
        return (await self.reads.estimate(body, past.seconds)).words

    async def save(self, texts: Mapping[str, str], by: str, task_id: str | None = None) -> Response:
        """Create or replace a task as it was typed, start it where that is asked, or only look at it."""
        form = TaskForm.read(texts)
        do = texts.get("do", "save")
        try:
            if do == "check":
                return await self.form(form, task_id=task_id, outlook=await self.outlook(form, by))
            body = form.body()
            if task_id is None:
                task_id, done = await self.service.create(body, by=by), "created"
            else:
                seen = int(revision_of(form.revision))
                await self.service.replace(task_id, body, revision=seen, by=by)
                done = "updated"
            if do == "start":
                task = await self.reads.one(task_id)
                begin = self.service.start if task.status == "PENDING" else self.service.restart
                await begin(task_id, revision=task.revision, by=by)
                done = "started"
        except Unfit as unfit:
            return await self.form(form, task_id=task_id, unfit=unfit, code=422)
        except OutOfDate as error:
            # whoever has seen that it changed may save over it
            now = str((await self.reads.one(task_id or "")).revision)
            late, said = form.model_copy(update={"revision": now}), Unfit([error.message])
            return await self.form(late, task_id=task_id, unfit=said, code=412, is_late=True)
        except (Rejected, Conflict) as error:
            said = Unfit([error.message])
            return await self.form(form, task_id=task_id, unfit=said, code=status_of(error))
        except ValueError as error:
            return await self.form(form, task_id=task_id, unfit=Unfit([str(error)]), code=422)
        return see(f"{_path(task_id)}?done={done}")

    async def one(self, task_id: str, done: str) -> HTMLResponse:
        """Show a task with its experiments."""
        since = self.site.live().since
        task, experiments = await self.reads.one(task_id), await self.reads.experiments(task_id)
        rows, group = await self._scenarios(task), await self._group(task)

        def drawn() -> Json:
            return {
                "bars": objective_bars(experiments, task.optimization["objective"]["metric"]),
                "latency": latency_figure(rows),
            }

        return await self.site.show(
            f"{KIND.name}/task.html",
            live=Live((f"task/{task_id}", f"group/{task.group}"), since),
            task=task,
            done=DONE.get(done, ""),
            experiments=experiments[:EXPERIMENTS_SHOWN],
            left_out=len(experiments) - len(experiments[:EXPERIMENTS_SHOWN]),
            marks=MARKS,
            metric=task.optimization["objective"]["metric"],
            swatches={"best": swatch(BEST_COLOR), "other": swatch(OTHER_COLOR)},
            **group,
            **await asyncio.to_thread(drawn),
        )

    async def compared(self, task_ids: Sequence[str]) -> HTMLResponse:
        """Show tasks beside each other: how they stand, and the numbers of their best experiments."""
        tasks = [await self.reads.one(each) for each in dict.fromkeys(task_ids)]
        columns = [each for each in NUMBERS if each.name in COMPARED]
        return await self.site.show(
            f"{KIND.name}/task_comparison.html", compared=tasks, marks=MARKS, columns=columns
        )

    async def _scenarios(self, task: Task) -> dict[str, list[Mapping[str, Any]]]:
        """Return the measurements of the best experiment, and of the baseline where that is another."""
        named = {"best": task.best, "baseline": task.baseline}
        if task.best is not None and task.best.is_baseline:
            named.pop("baseline")
        found: dict[str, list[Mapping[str, Any]]] = {}
        for name, each in named.items():
            measured = [run.id for run in each.runs if run.score is not None] if each is not None else []
            if measured:
                query = ResultQuery(set=SCENARIOS.name)
                page = await self.site.deps.results.page(measured[-1], query, limit=ROWS_MAX)
                found[name] = [row.values for row in page.items]
        return found

    async def _group(self, task: Task) -> Json:
        """Return the charts of the group, and what its study says of the best and of the parameters."""
        if not task.round:
            return {"history": None, "parallel": None, "by": "", "group": None}
        reading = self.site.deps.groups.reading
        group = await reading.group(task.group)
        plan, view = plan_of(group.plan), await study_view(reading.groups, group)
        assert view is not None
        group = told_with(group, view)
        goal = view.study.goal
        measured = await reading.measured(group, goal.name)
        rows = chosen_rows(measured, goal)
        values = await reading.parameters(group, rows)
        importance = await self.site.deps.groups.importances.soon(group, view)

        def drawn() -> Json:
            return {
                "history": history(measured, goal, plan, group.first),
                "parallel": parallel(rows, values, goal, plan, len(measured)),
                "study_charts": study_figures(view),
            }

        return {
            "group": group,
            "by": str(goal),
            "names": plan.names,
            "goals": view.study.metrics,
            "shown_trials": shown_trials(group),
            "importance": importance_rows(importance),
            **await asyncio.to_thread(drawn),
        }


def router(site: Site, reads: TaskReads, service: TaskService) -> APIRouter:
    """Return the routes of the pages and forms."""
    routes = Routes(include_in_schema=False)
    pages = TaskPages(site, reads, service)

    @routes.get("/tasks")
    async def listed(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        return await pages.all(wanted)

    @routes.get("/tasks/new")
    async def new(_: MaySubmit, engine: str = "", preset: str = "") -> HTMLResponse:
        form = TaskForm(baseline=ON)
        if engine in ENGINES:
            form = form.model_copy(update={"base_runtime": engine})
        return await pages.form(form.model_copy(update={"typed": preset_of(form.base_runtime, preset)}))

    @routes.post("/tasks/new")
    async def create(principal: MaySubmit, request: Request) -> Response:
        return await pages.save(await typed_texts(request), principal.name)

    @routes.get("/tasks/look")
    async def look(principal: MaySubmit, request: Request) -> dict[str, str]:
        form = TaskForm.read(dict(request.query_params))
        try:
            outlook = await pages.outlook(form, principal.name)
        except Unfit as unfit:
            outlook = f"not known yet: {'; '.join(unfit.problems)}"
        except Rejected as error:
            outlook = f"not known yet: {error.message}"
        where = (await known_models(site.deps.reading)).words(form.model_id.strip())
        return {"scenarios": scenario_words(form.traffic_scenarios), "outlook": outlook, "model": where}

    @routes.post("/tasks/import")
    async def bring(principal: MaySubmit, request: Request) -> Response:
        text = (await typed_texts(request)).get("text", "")
        try:
            body = await asyncio.to_thread(read_task, text)
            task_id = await service.create(body, by=principal.name)
        except (Rejected, Conflict) as error:
            return await pages.all(Page(), [error.message], status_of(error))
        return see(f"{_path(task_id)}?done=created")

    @routes.get("/tasks/compare")
    async def compare(_: MayRead, id: Ids) -> HTMLResponse:
        return await pages.compared(id)

    @routes.get("/tasks/{task_id}")
    async def one(task_id: str, _: MayRead, done: str = "") -> HTMLResponse:
        return await pages.one(task_id, done)

    @routes.get("/tasks/{task_id}/edit")
    async def edit(task_id: str, _: MaySubmit) -> HTMLResponse:
        task = await reads.one(task_id)
        if task.status == "RUNNING":
            return await site.problem(409, "Cannot edit a running task", back=_path(task_id))
        return await pages.form(TaskForm.of(await reads.body(task_id), task.revision), task_id=task_id)

    @routes.post("/tasks/{task_id}/edit")
    async def change(task_id: str, principal: MaySubmit, request: Request) -> Response:
        return await pages.save(await typed_texts(request), principal.name, task_id)

    _add_orders(routes, site, reads, service)
    _add_files(routes, reads)
    return routes


def _add_orders(routes: APIRouter, site: Site, reads: TaskReads, service: TaskService) -> None:
    async def begun(task_id: str, revision: str, by: str) -> None:
        """Begin a round of the task that was shown; whoever presses twice means once."""
        task = await reads.one(task_id)
        if task.status == "RUNNING" and task.revision > int(revision):
            return
        begin = service.start if task.status in ("PENDING", "RUNNING") else service.restart
        await begin(task_id, revision=int(revision), by=by)

    @routes.post("/tasks/{task_id}/start")
    async def start(task_id: str, principal: MaySubmit, revision: Revision) -> Response:
        return await carried_out(site, begun(task_id, revision, principal.name), _path(task_id))

    @routes.post("/tasks/{task_id}/cancel")
    async def cancel(task_id: str, principal: MaySubmit) -> Response:
        return await carried_out(site, service.cancel(task_id, by=principal.name), _path(task_id))

    @routes.post("/tasks/{task_id}/clone")
    async def clone(task_id: str, principal: MaySubmit) -> Response:
        copy = await service.clone(task_id, None, by=principal.name)
        return see(f"{_path(copy)}/edit")

    @routes.post("/tasks/{task_id}/delete")
    async def delete(task_id: str, _: MaySubmit, revision: Revision) -> Response:
        try:
            await service.delete(task_id, revision=int(revision))
        except (Rejected, Conflict) as error:
            return await site.problem(status_of(error), error.message, back=_path(task_id))
        return see("/tasks")


def _add_files(routes: APIRouter, reads: TaskReads) -> None:
    @routes.get("/tasks/{task_id}/experiments.csv")
    async def experiments(task_id: str, _: MayRead) -> Response:
        found = await reads.experiments(task_id)
        headers = {"Content-Disposition": 'attachment; filename="experiments.csv"'}
        content = await asyncio.to_thread(in_csv, found)
        return Response(content, media_type="text/csv; charset=utf-8", headers=headers)

    @routes.get("/tasks/{task_id}/objective.svg")
    async def objective(task_id: str, _: MayRead) -> Response:
        metric = (await reads.body(task_id)).optimization.objective.metric
        bars = await asyncio.to_thread(objective_bars, await reads.experiments(task_id), metric)
        if bars is None:
            raise NotFound(
                "unknown_chart", "no experiment of this task has measured anything that can be drawn"
            )
        headers = {"Content-Disposition": 'attachment; filename="objective.svg"'}
        return Response(bars.alone.encode(), media_type="image/svg+xml", headers=headers)

    @routes.get("/tasks/{task_id}/export")
    async def export(task_id: str, _: MayRead, format: Format = "yaml") -> Response:
        text = exported(await reads.body(task_id), format)
        headers = {"Content-Disposition": f'attachment; filename="task.{format}"'}
        return Response(text.encode(), media_type=MEDIA[format], headers=headers)


def _rows(engine: str, form: TaskForm) -> list[tuple[str, str, str, str]]:
    """Return of each parameter its field, its name, what it takes, and what was typed."""
    fields = ((field_of(engine, each.name), each) for each in rows_of(engine))
    return [(name, each.name, accepted(each), form.typed.get(name, "")) for name, each in fields]


def _path(task_id: str) -> str:
    return f"/tasks/{quote(task_id, safe='')}"
