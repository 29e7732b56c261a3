"""The web application: routes and loops on one set of dependencies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles

from control_plane.access.audit_log import Audited
from control_plane.concurrency.loops import Loop, end, run_every
from control_plane.files import tree_sweeper
from control_plane.files.uploads import upload_sweeper
from control_plane.live import live_texts, watcher
from control_plane.log import byte_budgets, catch_up
from control_plane.model.kind_packages import modules
from control_plane.reads.kinds.parts import names_of
from control_plane.runs.groups import advancer, pruner
from control_plane.runs.models import start_sync
from control_plane.runs.pods import resets
from control_plane.runs.schedules import scheduler
from control_plane.server import dependencies
from control_plane.server.api import (
    boards,
    bulk,
    fleet,
    ingest,
    kinds,
    models,
    results,
    runs,
    schedules,
)
from control_plane.server.api.access import audit_log, keys, projects, secrets, webhooks
from control_plane.server.api.contract import openapi, problems
from control_plane.server.api.contract.struct_routes import add_routes, answers_of
from control_plane.server.api.files import archives, artifacts, retention, trees
from control_plane.server.api.groups import races
from control_plane.server.api.groups import routes as groups
from control_plane.server.api.streams import changes, live_text
from control_plane.server.api.worker import claims, uploads
from control_plane.server.api.worker import live_text as pods_live_text
from control_plane.server.api.worker import trees as pods_trees
from control_plane.server.deps import Deps
from control_plane.server.http.answer_count import AnswerCount
from control_plane.server.http.answer_headers import AnswerHeaders
from control_plane.server.http.asked_from import AskedFrom
from control_plane.server.http.body_limit import BodyLimit
from control_plane.server.http.compression import Compression
from control_plane.server.http.head_limits import HeadLimits
from control_plane.server.http.head_requests import HeadRequests
from control_plane.server.http.leaving import Leaving
from control_plane.server.http.stored_files import StoredFiles
from control_plane.server.http.watchdog import Watchdog, Watched
from control_plane.server.install import routes as install
from control_plane.server.kind_routes import include_kinds
from control_plane.server.metrics import LIVE_DROPPED, STALLS, WAITING
from control_plane.server.web import live
from control_plane.server.web.page_renderer import HERE, Pages, Site
from control_plane.server.web.pages import bulk as bulk_pages
from control_plane.server.web.pages import (
    compare,
    new_run,
    pods,
    read_only,
    sign_in,
)
from control_plane.server.web.pages import models as model_pages
from control_plane.server.web.pages import schedules as schedule_pages
from control_plane.server.web.pages import secrets as secret_pages
from control_plane.server.web.pages.accounts import ledger, numbers
from control_plane.server.web.pages.boards import boards as board_pages
from control_plane.server.web.pages.boards import history
from control_plane.server.web.pages.groups import routes as group_pages
from control_plane.server.web.pages.groups.races import routes as race_pages
from control_plane.server.web.pages.steering import change, deletion, orders, retry
from control_plane.server.web.pages.steering import projects as project_pages
from control_plane.server.web.pages.steering import webhooks as webhook_pages
from control_plane.server.web.run_pages import routes as run_pages
from control_plane.upkeep import (
    fair_sharer,
    memory_return,
    pod_expirer,
    quarantiner,
    releaser,
    rescuer,
    spec_sweeper,
    sweeper,
    timekeeper,
)
from control_plane.upkeep.archives import importer
from control_plane.upkeep.keeping import deleter, retainer
from control_plane.upkeep.memory_return import MemoryReturn
from control_plane.upkeep.notifications import deliverer, gatherer, usage_watcher

NOUNS: Final = (
    *(bulk, runs, boards, results, artifacts, uploads, trees, archives),
    *(claims, fleet, kinds, models, schedules, groups, races, keys, secrets, audit_log, projects),
    *(retention, webhooks, install),
    *(changes, live_text, pods_live_text, pods_trees),
)


def create_app(deps: Deps) -> FastAPI:
    """Return the application; its loops run as long as it does.

    Raises `ConfigError` for a kind whose routes or sections cannot be had.
    """

    watchdog = Watchdog(deps.clock, lambda route, seconds: STALLS.labels(route).observe(seconds))

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        loops = [asyncio.create_task(run_every(*each)) for each in _loops(deps)]
        try:
            with watchdog.watching():
                yield
        finally:
            await end(loops)
            await deps.close()

    app = FastAPI(
        title="podfleet",
        version=version("podfleet"),
        lifespan=life,
        docs_url=None,  # its page would load scripts from another site
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # they would lead to whatever host the request names
        dependencies=dependencies.REQUIRED,
    )
    _wrap(app, deps, watchdog)
    WAITING.set_function(lambda: len(deps.claimer.notifier))
    LIVE_DROPPED.set_function(lambda: deps.live.texts.dropped)
    pages = Pages(*filter(None, (deps.settings.storage.origin, deps.settings.files_url)))
    problems.install(app, pages, deps.deleter.tombstone)
    routers = [fleet.health(deps), ingest.router(deps.ingestor, deps.admission)]
    routers += [noun.router(deps) for noun in NOUNS]
    site = Site(deps, pages)
    routers.append(sign_in.router(site, deps.authenticator))
    if deps.entrance is not None:
        routers.append(sign_in.issuer_router(site, deps.entrance))
    routers += [page.router(site) for page in (history, board_pages, bulk_pages, compare, new_run, read_only)]
    routers += [page.router(site) for page in (orders, retry, deletion, live)]
    routers.append(run_pages.router(site))
    routers += [page.router(site) for page in (change, group_pages, race_pages, schedule_pages)]
    routers.append(webhook_pages.router(site))
    routers += [
        page.router(site) for page in (model_pages, secret_pages, project_pages, numbers, ledger, pods)
    ]
    add_routes(app.router, *routers)
    app.mount("/static", StaticFiles(directory=HERE / "static"))

    @app.get("/openapi.json", include_in_schema=False)
    async def document(_: runs.MayRead) -> dict[str, object]:
        return openapi.described(app.openapi(), answers, names_of(deps.reading.parts))

    include_kinds(app, site)
    answers = answers_of(app.router)
    return app


def _loops(deps: Deps) -> list[Loop]:
    """Return the background loops: their periods in seconds, their names, and one round of each."""
    return [
        (timekeeper.TICK_S, "clock", deps.timekeeper.run_once),
        (timekeeper.TICK_S, "storage_clock", deps.timekeeper.measure_storage),
        (sweeper.TICK_S, "sweeper", deps.sweeper.run_once),
        (catch_up.TICK_S, "catch_up", deps.catch_up.run_once),
        (releaser.TICK_S, "releaser", deps.releaser.run_once),
        (rescuer.TICK_S, "rescuer", deps.rescuer.run_once),
        (quarantiner.TICK_S, "quarantiner", deps.quarantiner.run_once),
        (fair_sharer.TICK_S, "fair_sharer", deps.fair_sharer.run_once),
        (resets.TICK_S, "pod_resets", deps.pod_resets.run_once),
        (scheduler.TICK_S, "scheduler", deps.scheduler.run_once),
        (start_sync.TICK_S, "models", deps.start_sync.run_once),
        (advancer.TICK_S, "advancer", deps.groups.advancer.run_once),
        (pruner.TICK_S, "pruner", deps.groups.pruner.run_once),
        (spec_sweeper.TICK_S, "spec_sweeper", deps.spec_sweeper.run_once),
        (memory_return.TICK_S, "memory_return", MemoryReturn().run_once),
        (deleter.TICK_S, "deleter", deps.deleter.run_once),
        (retainer.TICK_S, "retainer", deps.retainer.run_once),
        (importer.TICK_S, "importer", deps.importer.run_once),
        (tree_sweeper.TICK_S, "tree_sweeper", deps.tree_sweeper.run_once),
        (pod_expirer.TICK_S, "pod_expirer", deps.pod_expirer.run_once),
        (upload_sweeper.TICK_S, "upload_sweeper", deps.upload_sweeper.run_once),
        (byte_budgets.TICK_S, "budgets", deps.budgets.run_once),
        (watcher.TICK_S, "watcher", deps.watcher.run_once),
        (watcher.TICK_S, "log_watcher", deps.log_watcher.run_once),
        (watcher.TICK_S, "live_watcher", deps.live.watcher.run_once),
        (live_texts.TICK_S, "live_texts", deps.live.texts.run_once),
        (gatherer.TICK_S, "gatherer", deps.notifications.gatherer.run_once),
        (usage_watcher.TICK_S, "usage_watcher", deps.notifications.usage.run_once),
        (deliverer.TICK_S, "deliverer", deps.notifications.deliverer.run_once),
        (dependencies.TICK_S, "dependencies", deps.dependencies.run_once),
        (dependencies.WATCH_S, "mongodb", deps.dependencies.watch),
        *(loop for module in modules("upkeep").values() for loop in module.loops(deps.db)),
    ]


def _wrap(app: FastAPI, deps: Deps, watchdog: Watchdog) -> None:
    """Add the middleware of all requests; the last is the outermost."""
    app.state.authenticator = deps.authenticator
    app.state.dependencies = deps.dependencies
    # Inside and outside: only a scope that is passed on as it is learns its route, and some copy it.
    app.add_middleware(Watched, watchdog=watchdog)
    app.add_middleware(Audited, audit_log=deps.audit_log, clock=deps.clock, ids=deps.ids)
    app.add_middleware(BodyLimit)
    app.add_middleware(Compression)  # not of files of the storage, which pass further out
    if deps.blobs.public is not None:  # with its own limits on bodies, which are files
        app.add_middleware(AskedFrom)
        app.add_middleware(StoredFiles, files=deps.blobs.public, clock=deps.blobs.clock)
    app.add_middleware(HeadLimits)
    app.add_middleware(Leaving)
    app.add_middleware(AnswerCount)
    app.add_middleware(AnswerHeaders, clock=deps.clock)
    app.add_middleware(HeadRequests)
    app.add_middleware(Watched, watchdog=watchdog)
    if deps.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=deps.settings.origins,
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"),
            expose_headers=("Location", "Retry-After"),
        )
