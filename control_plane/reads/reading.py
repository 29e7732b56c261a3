"""The reads of the API and of the pages, as plain JSON; both read through this module alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from control_plane.model.checkpoints import Candidate
from control_plane.model.presentation import IN_PLACE, plain, shown
from control_plane.model.result_replication import ELSEWHERE, believed, borne_out
from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.ended_pods import Start, folded
from control_plane.model.views.notes import answered
from control_plane.model.views.pods import pod
from control_plane.model.views.readable import UnreadableDocument, readable, reading_of, typed
from control_plane.model.views.runs import artifact, attempt, logged, run_row, stage, usage
from control_plane.reads import paging
from control_plane.reads.comparison import chosen, compared
from control_plane.reads.eta import Pace, pace
from control_plane.reads.kinds.loops import KindLoops, beside_loop
from control_plane.reads.kinds.parts import (
    ROWS_BYTES_MAX,
    KindPart,
    PartRows,
    Parts,
    names_of,
    parts_of_kinds,
    rows_of,
)
from control_plane.reads.kinds.told import Tellers, tellers_of_kinds, told_to
from control_plane.reads.lineage import Lineage
from control_plane.reads.measures import measures_of
from control_plane.reads.pod_rules import PodRules
from control_plane.store.access.audit_log import AuditLog
from control_plane.store.access.keys import Keys
from control_plane.store.catalogue.schedules import Schedules
from control_plane.store.pages import Order, Slice
from control_plane.store.pods import HOURS_MAX, Pods
from control_plane.store.queue.run_counts import COUNT_MAX, Tallies, Waiting
from control_plane.store.queue.submissions import Submitted
from control_plane.store.reads import METRICS_MAX, USAGE_EVENTS_MAX, Part, RunReads
from events.answers.access.audit_log import AuditEntry
from events.answers.access.keys import Key
from events.answers.answer import Listing, Unreadable
from events.answers.artifacts import Artifact
from events.answers.attempts import PodAttempt
from events.answers.fleet import QueuedClass
from events.answers.kind_parts import in_json
from events.answers.logs import LoggedEvent, LogPage
from events.answers.pods import Pod, Sample
from events.answers.runs import Comparison, Run, RunRow
from events.answers.runs import Part as PartAnswer
from events.answers.schedules import Schedule
from events.files.checkpoints import PREFIX
from events.kinds.results import is_measured
from events.lifecycle import Status
from events.queue.pod_checks import count_failing
from events.queue.requirements import classes_of, read_class
from events.queue.roster import REPORT_EVERY_S
from events.queue.rules import Rules
from events.runtime.clock import Clock
from events.runtime.errors import NotFound, Rejected
from events.text.truncation import brief_fields, brief_list

Json = dict[str, Any]
Item = TypeVar("Item")

ENDED_SHOWN: Final = 50  # on one page, below those that live
SILENT_AFTER: Final = timedelta(seconds=6 * REPORT_EVERY_S)
SAMPLED_PODS_MAX: Final = 64
FORGOTTEN_AFTER: Final = timedelta(days=1)
SEARCH_CHARS_MAX: Final = 200
# The lists that belong to runs of every kind, and their order.
OF_EVERY_KIND: Final[Mapping[str, Order]] = {
    "attempts": (("attempt", 1),),
    "stages": (("attempt", 1), ("order", 1)),
    "validations": (("_id", 1),),
    "artifacts": (("attempt", -1), ("name", 1)),
}
WAITING_SHOWN: Final = 100
LARGE_READS_MAX: Final = 4
# Two spellings of one level come in; whoever asks for one means both.
LEVELS: Final[Mapping[str, Sequence[str]]] = {
    "debug": ("debug",),
    "info": ("info",),
    "warn": ("warn", "warning"),
    "warning": ("warn", "warning"),
    "error": ("error",),
}


@dataclass(frozen=True, slots=True)
class EndedPods:
    """Pods that have ended: the last start of each place, how many starts it had, and how many places."""

    page: Listing[Pod]
    starts: Mapping[str, int]
    places: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilters:
    """Which runs are wanted; the first that is given leads, the others sieve.

    `pod` is the name of a pod, or one of its starts (`name/boot`); `by` submitted them.
    """

    q: str | None = None
    hypothesis: str | None = None
    group: str | None = None
    label: str | None = None
    pod: str | None = None
    by: str | None = None
    status: str | None = None
    kind: str | None = None
    region: str | None = None
    project: str | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the stored field and condition of each filter but the search, the narrowest first."""
        if self.status is not None and self.status not in Status.__members__:
            raise Rejected("bad_status", f"unknown status {self.status!r}; known: {', '.join(Status)}")
        region, project = _pattern(self.region, "region"), _pattern(self.project, "project")
        is_of_class = region is not None or project is not None
        fields = {
            "hypothesisId": self.hypothesis,
            "groupId": self.group,
            "labelList": self.label,
            "claimedBy": self.pod,
            "submittedBy": self.by,
            "status": self.status,
            "kind": self.kind,
            "classKey": {"$regex": classes_of(region, project)} if is_of_class else None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def search(self) -> str | None:
        """Return the words of the search, None where there are none."""
        return _search(self.q, "q")


@dataclass(frozen=True, slots=True)
class _Own:
    """The documents that belong to a run, brief, as they were stored."""

    attempts: Sequence[Json] = ()
    stages: Sequence[Json] = ()
    validations: Sequence[Json] = ()
    artifacts: Sequence[Json] = ()
    of_kind: Mapping[str, PartRows] = field(default_factory=dict)
    usages: Sequence[Json] = ()
    answers: Sequence[Json] = ()  # to notes
    cut: Sequence[str] = ()  # the names of those that are not whole


@dataclass(frozen=True, slots=True)
class Overview:
    """What the fleet does now; counts stop at `count_max`."""

    statuses: Mapping[str, int]
    queue: Sequence[QueuedClass]
    pods: Mapping[str, int]
    held_back: Mapping[str, int]
    awaiting_human: int
    count_max: int = COUNT_MAX


@dataclass(frozen=True, slots=True)
class LogStretch:
    """A page of a run's log, with the positions of the pages before and after; None at either end."""

    items: Sequence[LoggedEvent]
    earlier: str
    later: str | None


@dataclass(frozen=True, slots=True)
class Review:
    """A run that waits for a person, with the verdicts on it and what a browser shows of it in place."""

    run: RunRow
    validations: Sequence[Json]
    visible: Sequence[Artifact]


@dataclass(frozen=True, slots=True)
class Reading:
    """The reads of the API and of the pages. Each is bounded; lists are paged."""

    run_reads: RunReads
    tallies: Tallies
    pod_reads: Pods
    schedule_reads: Schedules
    key_reads: Keys
    audit_log_reads: AuditLog
    pod_rules: PodRules
    clock: Clock
    kind_loops: KindLoops
    parts: Parts = field(default_factory=parts_of_kinds)
    tellers: Tellers = field(default_factory=tellers_of_kinds)
    # A pod decides how much a run has to tell: so many are read at once, whoever asks.
    large_reads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_READS_MAX))

    async def overview(self) -> Overview:
        """Return what the fleet does now."""
        tally, pods, rules = await asyncio.gather(
            self.tallies.look(),
            self._pod_counts(),
            self.pod_rules.in_force(),
        )
        return Overview(
            statuses={status.value: count for status, count in tally.statuses.items()},
            queue=[_waiting(each, self.clock.now()) for each in tally.waiting],
            pods=pods,
            held_back={by: len(names) for by, names in rules.held_back().items()},
            awaiting_human=tally.statuses[Status.AWAITING_HUMAN],
        )

    async def runs(
        self, filters: RunFilters, limit: int = paging.LIMIT_DEFAULT, after: str | None = None
    ) -> Listing[RunRow]:
        """Return a page of runs, newest first."""
        key = None if after is None else paging.decode("runs", after, str)
        found = await self.run_reads.page(filters.conditions(), filters.search(), key, paging.limited(limit))
        return listing("runs", found, run_row)

    async def runs_of_ids(self, run_ids: Sequence[str]) -> list[RunRow]:
        """Return these runs and requests as a list shows them; those that are not there are left out."""
        return [run_row(each) for each in await self.run_reads.of_ids(run_ids)]

    async def compared(self, run_ids: Sequence[str]) -> list[Json]:
        """Return these runs in their order, each with spec, usage and metrics; unknown ones are left out."""
        found = {run["_id"]: _in_json(run) for run in await self.run_reads.of_ids(run_ids)}
        return [await self._compared(found[each]) for each in run_ids if each in found]

    async def comparison(self, run_ids: Sequence[str]) -> Comparison:
        """Return in what runs differ and agree. Raises `Rejected` for too few or too many, `NotFound`."""
        runs = [in_json(await self.run(each)) for each in chosen(run_ids)]
        # beside the event loop: what pods said decides how long it takes
        fields = await asyncio.to_thread(compared, runs)
        return Comparison(runs=[run["id"] for run in runs], fields=fields)

    async def measured(self, run_id: str, most: int = METRICS_MAX) -> list[Json]:
        """Return at most the latest `most` numbers that a run measured, in the order of the log."""
        found = await self.run_reads.metrics(run_id, most)
        told = ("data", "time", "receivedAt")
        return [{name: plain(each.get(name)) for name in told} for each in reversed(found)]

    async def _compared(self, run: Json) -> Json:
        spec = await self.run_reads.spec(run["id"]) or {}
        metrics = await self.measured(run["id"])
        return {
            **run,
            "spec": plain(spec.get("spec")),
            "requires": plain(run.get("requires", spec.get("requires"))),
            "usage": in_json(usage(await self.run_reads.usage([run["id"]]), USAGE_EVENTS_MAX)),
            "metrics": metrics,
            "isPartial": len(metrics) >= METRICS_MAX,
        }

    async def run(self, run_id: str, only: Callable[[str], Collection[str]] | None = None) -> Run:
        """Return a run with everything that belongs to it but its nodes' texts. Raises `NotFound`.

        `only` names, for a kind, what is read of its run: lists of `OF_EVERY_KIND`, parts of the kind,
        `usage`, `notes` (with their answers), `measures`, `successors`. The others are empty then.
        """
        async with self.large_reads:
            run, spec = await asyncio.gather(self.require(run_id), self.run_reads.spec(run_id))
            asked = None if only is None else only(run["kind"])
            found = await self._whole(run, spec or {}, asked)
            if asked is None or "successors" in asked:
                found = msgspec.structs.replace(found, successors=await self.run_reads.successors(run_id))
            return found

    async def submitted(self, submitted: Submitted) -> Run:
        """Return a new run from its submission, without a read: a pod may have claimed it by now.

        One that was there already is returned as it is.
        """
        if submitted.run is None:
            return await self.run(submitted.run_id)
        return await self._whole(submitted.run, submitted.spec)

    async def _whole(
        self, run: Mapping[str, Any], spec: Mapping[str, Any], only: Collection[str] | None = None
    ) -> Run:
        # nothing belongs to a run that no pod has taken yet
        parts = self.parts.get(run["kind"], ())
        own = await self._own(run, parts, only) if run["attempt"] else _Own()
        attempts = [borne_out(each, own.attempts) for each in own.attempts]
        measured: str | UnsetType | None = UNSET
        if only is None or "measures" in only:
            measured = await beside_loop(run["kind"], partial(measures_of, run["kind"], spec.get("spec")))
        return from_document(
            Run,
            # a run without a verdict has no seal, one from before there were pauses lacks them
            {"paused": False, "sealed": None, **brief_fields(run)},
            from_stage=plain(spec.get("fromStage")),
            spec=plain(spec.get("spec")),
            measures=measured,
            requires=plain(run.get("requires", spec.get("requires"))),
            traceparent=spec.get("traceparent"),
            notes=answered(brief_fields(run).get("notes") or (), own.answers),
            attempts=[attempt(each) for each in attempts],
            stages=[stage(each, run) for each in own.stages],
            validations=[shown(each) for each in believed(own.validations, own.attempts)],
            artifacts=[from_document(Artifact, each) for each in own.artifacts],
            sections=[
                PartAnswer(
                    name=each.name,
                    title=each.title,
                    columns=[*each.columns],
                    problem=own.of_kind.get(each.name, PartRows()).problem or UNSET,
                )
                for each in parts
            ],
            rows={
                **{name: [] for name in names_of(self.parts)},
                **{name: [*each.rows] for name, each in own.of_kind.items()},
            },
            usage=usage(own.usages, USAGE_EVENTS_MAX),
            truncated=sorted(own.cut),
        )

    async def _own(
        self, run: Mapping[str, Any], of_kind: Sequence[KindPart], only: Collection[str] | None
    ) -> _Own:
        """Read the documents of a run concurrently, so that its page waits for one round trip."""
        run_id, reads = run["_id"], self.run_reads

        def wants(name: str) -> bool:
            # where a verdict was replicated, the record of the attempts tells
            asked = {name, "validations"} if name == "attempts" else {name}
            return only is None or not asked.isdisjoint(only)

        kept = {name: order for name, order in OF_EVERY_KIND.items() if wants(name)}
        parts = [each for each in of_kind if wants(each.name)]
        loop = self.kind_loops.of(run["kind"]) if parts else None
        lists, rows, usages, said = await asyncio.gather(
            asyncio.gather(*(reads.beside(name, [run_id], order) for name, order in kept.items())),
            asyncio.gather(*(rows_of(run["kind"], each, reads, run_id, loop) for each in parts)),
            reads.usage([run_id]) if wants("usage") else _nothing(),
            reads.note_answers(run_id) if wants("notes") else _no_part(),
        )
        named = {part.name: each for part, each in zip(parts, rows, strict=True)}
        # beside the event loop: what a pod said decides how long it takes
        found = dict(zip(kept, lists, strict=True))
        own = await asyncio.to_thread(_kept, found, usages, named)
        return replace(own, answers=said.documents)

    async def pace(self, run: Run) -> Pace | None:
        """Return the pace of the run's current stage; None if it has none."""
        running = [each for each in run.stages if each.status == "RUNNING"]
        if not running:
            return None
        current = running[-1]
        steps = [
            {"at": each["receivedAt"], "progress": each["data"]["progress"]}
            for each in reversed(await self.run_reads.progress(run.id))
            if each["attempt"] == current.attempt and each["data"]["stage"] == current.name
        ]
        started = None if current.started_at is None else datetime.fromisoformat(current.started_at)
        return pace(steps, started, self.clock.now())

    async def visible_artifacts(self, run_ids: Sequence[str]) -> Mapping[str, list[Artifact]]:
        """Return, by run, the artifacts that a browser shows in place; per name, the latest attempt's."""
        latest: dict[str, dict[str, Artifact]] = {run_id: {} for run_id in run_ids}
        for each in await self.run_reads.artifacts_of_types(run_ids, IN_PLACE):
            if not each["name"].startswith(PREFIX):
                latest[each["runId"]].setdefault(each["name"], artifact(each))
        return {run_id: list(named.values()) for run_id, named in latest.items()}

    async def reviewed(self, limit: int, after: str | None = None) -> tuple[Sequence[Review], str | None]:
        """Return a page of the runs that wait for a person, newest first, and where the next one begins."""
        page = await self.runs(RunFilters(status=Status.AWAITING_HUMAN), limit, after)
        run_ids = [run.id for run in page.items]
        visible = await self.visible_artifacts(run_ids) if run_ids else {}
        found = (
            await self.run_reads.beside("validations", run_ids, (("_id", 1),)) if run_ids else Part((), False)
        )
        doubtful = [each["runId"] for each in found.documents if each.get("replication") == ELSEWHERE]
        attempts = (await self.run_reads.verdicts_of_attempts(doubtful)) if doubtful else []
        reviews = []
        for run in page.items:
            own = [each for each in found.documents if each["runId"] == run.id]
            made = [each for each in attempts if each["runId"] == run.id]
            reviews.append(Review(run, [_in_json(each) for each in believed(own, made)], visible[run.id]))
        return reviews, page.next

    async def waiting_for_people(self) -> int:
        """Return how many runs wait for a person, counted up to `WAITING_SHOWN`."""
        return await self.tallies.count(Status.AWAITING_HUMAN, WAITING_SHOWN)

    async def rows_of(self, run_ids: Sequence[str]) -> Sequence[RunRow]:
        """Return these runs as lists show them, without those that are gone or damaged."""
        found = await self.run_reads.of_ids(run_ids, ["runs"]) if run_ids else []
        return listing("runs", Slice(found, None), run_row).items

    async def running(self, kinds: Sequence[str]) -> Mapping[str, int]:
        """Return how many runs of some kinds are running now, each counted up to `WAITING_SHOWN`."""
        return {each: await self.tallies.running(each, WAITING_SHOWN) for each in kinds}

    async def events(
        self,
        run_id: str,
        *,
        type: str | None = None,
        level: str | None = None,
        text: str | None = None,
        after: str | None = None,
        limit: int = paging.LIMIT_DEFAULT,
        newest_first: bool = True,
    ) -> LogPage:
        """Return a page of a run's log; `text` is looked for in what lines and activities say.

        Raises `NotFound` for a run that never was heard of.

        `tail` is where a reader of the log in its order goes on once more has come in.
        """
        name = "events, newest first" if newest_first else "events"
        async with self.large_reads:
            found = await self.run_reads.events(
                run_id,
                event_type=type,
                levels=_levels(level),
                text=_pattern(_search(text, "text"), "text"),
                after=None if after is None else paging.decode(name, after, str),
                limit=paging.limited(limit),
                newest_first=newest_first,
            )
            page = listing(name, found, logged)
        if not found.documents and after is None:
            await self.require(run_id)
        if newest_first:
            return LogPage(items=page.items, next=page.next)
        last = paging.encode(name, page.items[-1].position) if page.items else after
        return LogPage(items=page.items, next=page.next, tail=page.next or last)

    async def events_from(self, run_id: str, position: str) -> LogStretch:
        """Return the page of a run's log that begins at `position`.

        Raises `NotFound`.
        """
        after = paging.encode("events", position[:-1])
        page = await self.events(run_id, after=after, newest_first=False)
        first = page.items[0].position if page.items else position
        earlier = paging.encode("events, newest first", first)
        return LogStretch(page.items, earlier, page.items[-1].position if page.next else None)

    async def attempts(self, run_id: str) -> Sequence[Json]:
        """Return pod and verdict of each attempt of a run, until the last with a registered file."""
        return await self.run_reads.pods_of_attempts(run_id)

    async def checkpoints(self, run_id: str, before: int) -> list[Candidate]:
        """Return the checkpoints that attempt `before` may use; per name, nearest and latest first."""
        return await Lineage(self.run_reads).offered(run_id, before)

    async def told(self, run_id: str) -> dict[str, Any]:
        """Return what the kind of a run tells an attempt at its start. Raises `NotFound`."""
        kind = (await self.require(run_id))["kind"]
        tell = self.tellers.get(kind)
        loop = self.kind_loops.of(kind) if tell is not None else None
        return await told_to(kind, tell, self.run_reads, run_id, loop)

    async def artifacts(
        self, run_id: str, limit: int = paging.LIMIT_DEFAULT, after: str | None = None
    ) -> Listing[Artifact]:
        """Return a page of a run's artifacts, the latest attempt's first. Raises `NotFound`."""
        await self.require(run_id)
        key = None if after is None else paging.decode("artifacts", after, int, str)
        found = await self.run_reads.artifacts(run_id, key, paging.limited(limit))
        return listing("artifacts", found, artifact)

    async def artifact(self, artifact_id: str) -> Artifact:
        """Return one artifact. Raises `NotFound`."""
        return artifact(required(await self.run_reads.artifact(artifact_id), "artifact", artifact_id))

    async def pods(
        self,
        limit: int = paging.LIMIT_DEFAULT,
        after: str | None = None,
        *,
        live_only: bool = False,
        region: str | None = None,
    ) -> Listing[Pod]:
        """Return a page of pods, the last started first; `live_only` leaves out those that are silent."""
        since = self.clock.now() - SILENT_AFTER if live_only else None
        found = await self.pod_reads.page(moment_key("pods", after), paging.limited(limit), since, region)
        rules = await self.pod_rules.in_force()
        return listing("pods", found, partial(self._pod, rules))

    async def ended_pods(self, region: str | None = None) -> EndedPods:
        """Return the last start of each place where none lives, the last first, `ENDED_SHOWN` at most."""
        since = self.clock.now() - SILENT_AFTER
        ended = folded(
            Start(
                str(each["_id"]), each.get("state") != "stopped" and _is_after(each.get("reportedAt"), since)
            )
            for each in await self.pod_reads.starts(region)
        )
        starts = {each.id: each.starts for each in ended[:ENDED_SHOWN]}
        found = {str(row["_id"]): row for row in await self.pod_reads.of_ids([*starts])} if starts else {}
        rows = Slice([found[each] for each in starts if each in found], None)
        rules = await self.pod_rules.in_force()
        return EndedPods(listing("pods", rows, partial(self._pod, rules)), starts, len(ended))

    async def worst_pod_clock_s(self) -> float:
        """Return how far the worst clock of a live pod is from the store's; 0 without any."""
        return await self.pod_reads.worst_clock_s(self.clock.now() - SILENT_AFTER)

    async def telemetry(self, pod_id: str, hours: int) -> list[Sample]:
        """Return what a pod had in use in the last `hours`, the earliest first. Raises `NotFound`."""
        required(await self.pod_reads.find(pod_id), "pod", pod_id)
        since = self.clock.now() - timedelta(hours=min(hours, HOURS_MAX))
        return _samples(await self.pod_reads.samples(pod_id, since))

    async def samples(self, pods: Sequence[str], since: datetime) -> dict[str, list[Sample]]:
        """Return what these workers had in use since then, by their ids, the earliest sample first.

        Of `SAMPLED_PODS_MAX` at most, and of `HOURS_MAX` at most; one that nobody knows has none.
        """
        earliest = max(since, self.clock.now() - timedelta(hours=HOURS_MAX))
        few = list(dict.fromkeys(pods))[:SAMPLED_PODS_MAX]
        found = await self.pod_reads.samples_of(few, earliest)
        return {pod: _samples(samples) for pod, samples in found.items()}

    async def attempts_of_pod(
        self, pod_id: str, limit: int = paging.LIMIT_DEFAULT, after: str | None = None
    ) -> Listing[PodAttempt]:
        """Return a page of a pod's attempts, those of the newest runs first, each with its run's title."""
        key = None if after is None else paging.decode("attempts", after, str)
        found = await self.pod_reads.attempts(pod_id, key, paging.limited(limit))
        runs = await self.run_reads.of_ids([each["runId"] for each in found.documents])
        titles = {run["_id"]: run.get("title") for run in runs}
        made = await self.run_reads.borne_out(found.documents, "runId")
        return listing(
            "attempts",
            replace(found, documents=made),
            lambda each: from_document(
                PodAttempt, brief_fields(each), title=plain(titles.get(each["runId"]))
            ),
        )

    async def pod(self, pod_id: str) -> Pod:
        """Return one pod. Raises `NotFound`."""
        found = required(await self.pod_reads.find(pod_id), "pod", pod_id)
        return self._pod(await self.pod_rules.in_force(), found)

    async def failing_checks(self) -> Mapping[str, int]:
        """Return how many live pods claim less by each check that fails."""
        failing = await self.pod_reads.failing(self.clock.now() - SILENT_AFTER)
        return count_failing(failing)

    async def takers_by_kind(self) -> Mapping[str, int]:
        """Return how many live pods take runs of each kind."""
        barred = (await self.pod_rules.in_force()).held_back()
        since = self.clock.now() - SILENT_AFTER
        return await self.pod_reads.takers_by_kind(since, [*barred["cordon"], *barred["quarantine"]])

    async def schedules(
        self, limit: int = paging.LIMIT_DEFAULT, after: str | None = None
    ) -> Listing[Schedule]:
        """Return a page of schedules, newest first."""
        found = await self.schedule_reads.page(moment_key("schedules", after), paging.limited(limit))
        return listing("schedules", found, partial(readable, Schedule, "schedule"))

    async def schedule(self, schedule_id: str) -> Schedule:
        """Return one schedule. Raises `NotFound`."""
        found = required(await self.schedule_reads.find(schedule_id), "schedule", schedule_id)
        return readable(Schedule, "schedule", found)

    async def keys(self, limit: int = paging.LIMIT_DEFAULT, after: str | None = None) -> Listing[Key]:
        """Return a page of keys, the newest first, as they may be seen."""
        found = await self.key_reads.page(moment_key("keys", after), paging.limited(limit))
        return listing("keys", found, partial(from_document, Key))

    async def audit_log(
        self, filters: Mapping[str, str], limit: int, after: str | None
    ) -> Listing[AuditEntry]:
        """Return a page of the records of who did what, the newest first."""
        found = await self.audit_log_reads.page(
            filters, None if after is None else paging.decode("trail", after, str), paging.limited(limit)
        )
        return listing("trail", found, partial(from_document, AuditEntry))

    async def require(self, run_id: str) -> Mapping[str, Any]:
        """Return a run as it is stored, without what belongs to it. Raises `NotFound`."""
        return required(await self.run_reads.find(run_id), "run", run_id)

    async def _pod_counts(self) -> Mapping[str, int]:
        now = self.clock.now()
        silent_since = now - SILENT_AFTER
        gone = await self.pod_reads.silent(silent_since, now - FORGOTTEN_AFTER)
        live = await self.pod_reads.live_by_state(silent_since)
        return {"busy": 0, "idle": 0, "suspended": 0, **live, "gone": gone}

    def _pod(self, rules: Rules, document: Mapping[str, Any]) -> Pod:
        now = self.clock.now()
        with reading_of("pod", document.get("_id")):
            return typed(pod(document, now - SILENT_AFTER, rules, now))


def _is_after(moment: Any, since: datetime) -> bool:
    return isinstance(moment, datetime) and moment >= since


def _samples(found: Sequence[Json]) -> list[Sample]:
    """Return samples with what is a number in each; of anything else nothing is known."""
    return [
        from_document(Sample, {name: value for name, value in each.items() if _is_of_sample(name, value)})
        for each in found
    ]


def _is_of_sample(name: str, value: Any) -> bool:
    if name in ("gpuFaults", "gpuForeign"):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return name == "at" or is_measured(value)


def _waiting(found: Waiting, now: datetime) -> QueuedClass:
    """Return a class with waiting runs: their count, and the age of the oldest."""
    wanted = read_class(found.class_key)
    return QueuedClass(
        class_key=found.class_key,
        project=wanted.project,
        labels=dict(wanted.labels),
        pod=wanted.pod,
        collection=found.collection,
        depth=found.depth,
        is_partial=found.is_partial,
        oldest_queued_at=plain(found.oldest),
        oldest_wait_s=None if found.oldest is None else _seconds(found.oldest, now),
    )


def listing(name: str, found: Slice, view: Callable[[Mapping[str, Any]], Item]) -> Listing[Item]:
    """Return a page of a list, with the cursor of the next one, and the names of what cannot be read."""
    items: list[Item] = []
    damaged: list[Unreadable] = []
    for document in found.documents:
        try:
            items.append(view(document))
        except UnreadableDocument as error:
            damaged.append(Unreadable(id=error.identity, problem=error.problem))
    return Listing(items=items, next=_cursor(name, found.stopped_at), unreadable=damaged or UNSET)


def _cursor(name: str, key: Sequence[Any] | None) -> str | None:
    """Return the cursor of the next page; none behind a damaged document, where only such ones follow."""
    told = [plain(part) for part in key or ()]
    return paging.encode(name, *told) if told and all(isinstance(part, str | int) for part in told) else None


async def _nothing() -> list[Json]:
    return []


async def _no_part() -> Part:
    return Part((), False)


def _kept(parts: Mapping[str, Part], usages: Sequence[Json], of_kind: Mapping[str, PartRows]) -> _Own:
    """Return what belongs to a run, cut to the size of an answer before it is converted."""
    own: dict[str, Sequence[Json]] = {}
    cut = [name for name, each in of_kind.items() if not each.is_whole]
    for name, part in parts.items():
        own[name] = brief_list(part.documents, ROWS_BYTES_MAX)
        if part.is_cut or len(own[name]) < len(part.documents):
            cut.append(name)
    return _Own(**own, of_kind=of_kind, usages=usages, cut=cut)


def _in_json(document: Mapping[str, Any]) -> Json:
    """Return a stored document as an answer, each field cut to its limit."""
    return shown(brief_fields(document))


def required(document: Mapping[str, Any] | None, what: str, identity: str) -> Mapping[str, Any]:
    """Return what was found. Raises `NotFound` that names `what` and its id."""
    if document is None:
        raise NotFound(f"unknown_{what}", f"there is no {what} {identity!r}")
    return document


def _search(text: str | None, name: str) -> str | None:
    """Return the search text, None if empty. Raises `Rejected` if it is too long."""
    wanted = (text or "").strip()
    if len(wanted) > SEARCH_CHARS_MAX:
        raise Rejected("bad_search", f"`{name}` is longer than {SEARCH_CHARS_MAX} characters")
    return wanted or None


def _pattern(text: str | None, name: str) -> str | None:
    """Return the pattern for the store. Raises `Rejected` for text that a pattern cannot hold."""
    if text is not None and "\0" in text:
        raise Rejected("bad_search", f"`{name}` holds the character NUL, which cannot be looked for")
    if text is not None and len(text) > SEARCH_CHARS_MAX:
        raise Rejected("bad_search", f"`{name}` has {len(text):,} characters; at most {SEARCH_CHARS_MAX}")
    return text


def _levels(level: str | None) -> Sequence[str]:
    if level is None:
        return ()
    if level not in LEVELS:
        raise Rejected("bad_level", f"unknown level {level!r}; known: debug, info, warn, error")
    return LEVELS[level]


def moment_key(name: str, after: str | None) -> list[Any] | None:
    """Return the key in a cursor of a list that is ordered by moment and id."""
    if after is None:
        return None
    moment, identity = paging.decode(name, after, str, str)
    try:
        # in UTC, where also the first and the last hours of the calendar have to have a place
        return [datetime.fromisoformat(str(moment)).astimezone(UTC), identity]
    except (ValueError, OverflowError):
        raise Rejected("bad_cursor", f"`after` is not a cursor of this list ({name})") from None


def _seconds(since: datetime, now: datetime) -> float:
    return max(0.0, round((now - since).total_seconds(), 3))
