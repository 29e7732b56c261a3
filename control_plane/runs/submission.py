"""Submits work: writes the specification first, then the run that points to it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from control_plane.access.auth import ASKER, Forbidden
from control_plane.access.keys import person_id_in
from control_plane.access.secrets.naming import require_named, require_names
from control_plane.files.inputs import Inputs, InputsAsGiven
from control_plane.model.run import Run
from control_plane.reads.kinds.loops import beside_loop
from control_plane.reads.lineage import Lineage
from control_plane.runs.options import LABEL_CHARS_MAX, NO_CHANGES, QUEUE_LIMIT_S, OptionChanges, StartOptions
from control_plane.store.database import Document
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.runs import Runs
from control_plane.store.queue.submissions import SPEC_GRACE_S, Submissions, Submitted
from control_plane.store.queue.successors import Successors
from control_plane.store.reads import RunReads
from events.answers.runs import CheckedRun
from events.files.trees import is_tree_id, tree_in
from events.kinds import KINDS, RUN_KINDS, kind_of, measures, normal_of, read_spec, stages_of, title_of
from events.kinds.declaring.queues import RUNS
from events.kinds.declaring.spec import Spec
from events.lifecycle import FINAL, SUCCEEDED, Status
from events.queue.fair.shares import DEFAULT
from events.queue.journal import Expression, creation
from events.queue.requirements import Requirements, asked_with, class_key, read_class, read_requirements
from events.runtime.clock import Ids
from events.runtime.errors import Conflict, Gone, NotFound, Rejected
from events.text.input_source import OF_RUN
from events.text.predecessors import group_in, shown
from events.text.secret_names import USER_TOKEN
from events.text.trace import traceparent_of

# Half of what the sweep of orphans grants: a run that came later may have lost its snapshot to it.
SPEC_FRESH: Final = timedelta(seconds=SPEC_GRACE_S / 2)
WORDS_MAX: Final = 40
NO_PATCH: Final[Mapping[str, Any]] = {}
RETRIES_MAX: Final = 100  # of a run, and of its retry in turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(StartOptions):
    """A run as its submitter wants it; `named_by` is the name of the key that names the `secrets`.

    A lane of a race has a `barrier`: it waits for the others. A run with `after` waits for these.
    """

    kind: str
    spec: Mapping[str, Any]
    by: str
    hypothesis_id: str | None = None
    parent_run_id: str | None = None
    from_stage: str | None = None
    group_id: str | None = None
    slot: int | None = None  # in its group
    barrier: bool = False
    after: Sequence[str] = ()  # runs, and `group:NAME`, that have to complete first
    idempotency_key: str | None = None
    named_by: str | None = None
    traceparent: str | None = None  # the W3C trace context in which somebody asks for this run


@dataclass(frozen=True, slots=True)
class Order:
    """A submission that was read, and could run; `measures` is what it will measure, in words."""

    wanted: Submission
    spec: Spec
    requires: Requirements
    measures: str
    secrets: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The hash of the submission's content: submissions with the same content have the same."""
        return _digest(self.wanted)


@dataclass(frozen=True, slots=True)
class Submitter:
    """Puts runs into the queues of their kinds. Raises `Rejected`, `NotFound`, `Conflict`."""

    runs: Runs
    queue: Submissions
    ids: Ids
    reads: RunReads
    groups: Groups
    inputs: Inputs = field(default_factory=InputsAsGiven)

    async def exact(self, wanted: Submission) -> Submission:
        """Return a submission whose specification says what its inputs are. Raises `Rejected`."""
        spec = await self.inputs.exact(wanted.kind, wanted.spec, by=wanted.by, later=wanted.after)
        return replace(wanted, spec=spec)

    @property
    def successors(self) -> Successors:
        """The runs that wait for others."""
        return Successors(self.runs.db)

    async def submit(self, wanted: Submission) -> Submitted:
        """Queue a run; the same idempotency key with the same content returns the same run."""
        return await self.submit_order(await order_of(wanted))

    async def submit_order(self, order: Order) -> Submitted:
        """Queue a run whose submission was read; its idempotency key is that of `submit`."""
        known_run = await self._earlier(order)
        if known_run is not None:
            return known_run
        run_id = self.ids.ulid()
        submitted = await self.enqueue(run_id, order)
        if submitted.is_new:
            return submitted
        known_run = await self._earlier(order)
        assert known_run is not None, "only the idempotency key can collide"
        if known_run.run_id != run_id:
            await self.queue.drop_spec(run_id)
        return known_run

    async def submit_as(self, run_id: str, wanted: Submission) -> Submitted:
        """Queue a run under a derived id; repeated calls make one run."""
        order = await order_of(wanted)
        assert wanted.idempotency_key is None, "the id itself says which run it is"
        if await self.queue.deleted([run_id]):
            return Submitted(run_id)  # it was there, and is not made again
        return await self.enqueue(run_id, order)

    async def retry(
        self,
        run_id: str,
        *,
        by: str,
        from_stage: str | None = None,
        patch: Mapping[str, Any] = NO_PATCH,
        changes: OptionChanges = NO_CHANGES,
        key: str | None = None,
        named_by: str | None = None,
    ) -> Submitted:
        """Queue a new run with the specification of a finished one, which it names as its parent.

        With `from_stage` it begins there, from the checkpoints of the parent. Its specification differs by
        the `patch`, its options by the `changes`. The same idempotency key returns the same new run.
        `named_by` is the name of the key that asks for it. Raises `Rejected`, `Conflict`, `NotFound`.
        """
        found = await self.runs.find(run_id)
        spec = await self.queue.spec(run_id)
        if found is None or spec is None or found.collection != RUNS.collection:
            raise NotFound("unknown_run", f"there is no run {run_id!r}")
        if found.run.is_imported:
            message = (
                "another fleet ran it: its limits, inputs and project are not those of this one; submit anew"
            )
            raise Conflict("imported_run", message)
        if spec.get("barrier"):
            group = found.run.group_id
            message = f"the run starts with others: run all of them again, `podfleet groups again {group}`"
            raise Conflict("lane_of_a_race", message)
        if found.run.group_id is not None:
            await self._require_unbudgeted(found.run.group_id)
        if patch:
            _require_patchable(found.run, from_stage)
        if from_stage is not None:
            check_stage(found.run.kind, from_stage)
        if found.run.status not in FINAL:
            raise Conflict("not_final", f"the run is {found.run.status}; only a finished run can be retried")
        if from_stage is not None:
            await self._must_have_left(found.run, from_stage)
        run = found.run
        after = await self._after(run)
        kept = {
            "requires": spec["requires"] if run.requires is None else run.requires,
            "priority": run.priority,
            "queue_limit_s": run.queue_limit_s or QUEUE_LIMIT_S,
            "labels": run.labels,
            "max_attempts": run.max_attempts,
            "secrets": run.secrets,
            "project": read_class(run.class_key).project,
        }
        again = Submission(
            kind=run.kind,
            spec=patched(following(_inherited(run.kind, spec["spec"]), after), patch),
            by=by,
            hypothesis_id=run.hypothesis_id,
            parent_run_id=run_id,
            from_stage=from_stage,
            named_by=named_by,
            group_id=run.group_id,
            slot=run.slot,
            after=tuple(dict.fromkeys(after.values())),
            idempotency_key=key,
            **changes.over(kept),
        )
        if patch:
            again = await self.exact(again)
        return await (self.submit(again) if again.group_id is None else self._retry_member(again))

    async def _require_unbudgeted(self, group_id: str) -> None:
        """Check that no budget bounds a group: a retry would add to it. Raises `Conflict`."""
        group = await self.groups.find(group_id)
        if group is not None and group["plan"].get("budget_usd") is not None:
            message = (
                f"its group has a budget, of which a retry would have no part: run all of it again, "
                f"`podfleet groups again {group_id}`, or submit the run by itself"
            )
            raise Conflict("budget_of_group", message)

    async def _after(self, run: Run) -> Mapping[str, str]:
        """Return for which runs the retry of a run waits, by those for which it waited itself.

        That is the newest retry of what was run again.
        """
        after, retried = {each: each for each in run.after}, dict[str, str]()
        for _ in range(RETRIES_MAX if after else 0):
            standing = await self.successors.standing([*after.values()])
            vain = [name for name, each in standing.items() if each["status"] in FINAL - SUCCEEDED]
            retried = await self.successors.retried(vain) if vain else {}
            if not retried:
                break
            after = {first: retried.get(last, last) for first, last in after.items()}
        return after

    async def _retry_member(self, again: Submission) -> Submitted:
        """Queue the retry of a member, in its slot; the unique index on slots lets a run have one retry."""
        assert again.group_id is not None
        assert again.slot is not None
        assert again.parent_run_id is not None
        order = await order_of(again)
        place = (again.group_id, again.slot, again.parent_run_id)
        known = await self._earlier(order)
        if known is None and (there := await self.queue.retried(*place)) is not None:
            known = Submitted(there["_id"])
        if known is not None:
            return known
        await self.require_permitted(order)  # before the group: what is refused changes nothing
        await self.groups.reopen(again.group_id, again.slot, by=again.by)
        run_id = self.ids.ulid()
        submitted = await self.enqueue(run_id, order)
        if submitted.is_new:
            return submitted
        await self.queue.drop_spec(run_id)
        known = await self._earlier(order)
        if known is not None:
            return known
        there = await self.queue.retried(*place)
        assert there is not None, "only the idempotency key and the slot can collide"
        return Submitted(there["_id"])

    async def _must_have_left(self, run: Run, stage: str) -> None:
        """Check that every stage before `stage` has a checkpoint. Raises `Conflict`."""
        missing = await Lineage(self.reads).first_missing(run.id, run.kind, stage)
        if missing is not None:
            is_first = missing == stages_of(run.kind)[0]
            instead = (
                "retry the whole run" if is_first else f"retry from {missing}, or from a stage before it"
            )
            raise Conflict("no_checkpoint", f"the run left no checkpoint of a finished {missing}; {instead}")

    async def _earlier(self, order: Order) -> Submitted | None:
        key = order.wanted.idempotency_key
        if key is None:
            return None
        run = await self.queue.by_idempotency_key(key)
        if run is None:
            # Afterwards: a run goes after its tombstone is put.
            deleted = await self.queue.deleted_by_key(key)
            if deleted is not None:
                message = f"Idempotency-Key {key!r} was used for run {deleted['_id']}, which was deleted"
                raise Gone("deleted", message)
            return None
        if run["idempotency"]["digest"] != order.digest:
            message = f"Idempotency-Key {key!r} was used for another run, {run['_id']}"
            raise Conflict("idempotency_conflict", message)
        return Submitted(run["_id"])

    async def require_project(self, project: str) -> None:
        """Check that a project is there, and is one of whoever asks. Raises `Rejected`, `Forbidden`."""
        asker = ASKER.get()
        if asker is not None and asker.projects and project not in asker.projects:
            message = f"this key submits runs of {', '.join(asker.projects)} alone, not of {project}"
            raise Forbidden("foreign_project", message)
        if project != DEFAULT and not await self.queue.has_project(project):
            message = f"there is no project {project}; an admin makes it by `podfleet projects set {project}`"
            raise Rejected("unknown_project", message)

    async def require_permitted(self, order: Order) -> None:
        """Check that the secrets and the project of an order are there, and may be named.

        Raises `Rejected`, `Forbidden`.
        """
        await self.require_project(order.wanted.project)
        await self.require_named(order.secrets, order.wanted.kind, order.wanted.named_by)

    async def require_named(self, secrets: Sequence[str], kind: str, named_by: str | None) -> None:
        """Check that secrets are there, and that this key may name them. Raises `Rejected`, `Forbidden`."""
        if secrets:
            found = await self.queue.secrets(secrets)
            require_named(secrets, found, kind=kind, named_by=named_by)

    async def enqueue(self, run_id: str, order: Order) -> Submitted:
        """Queue a run under this id, in the queue of its kind."""
        await self.require_permitted(order)
        collection = KINDS[order.wanted.kind].queue.collection
        kind = order.wanted.kind
        waits = await self.has_to_wait(order.wanted.after)
        # Afterwards: what is not waited for any more has to be known exactly.
        exact = await self.exact(order.wanted)
        fields = await beside_loop(kind, partial(run_fields, order, waits=waits))
        spec = await beside_loop(kind, partial(snapshot, run_id, exact))
        put_at = await self.queue.put_spec(run_id, spec)
        run = await self.queue.enqueue(collection, run_id, creation(fields, by=order.wanted.by))
        if run is not None and run["createdAt"] - put_at > SPEC_FRESH:
            await self.queue.put_spec(run_id, spec)
        return Submitted(run_id, run, spec)

    async def has_to_wait(self, after: Sequence[str]) -> bool:
        """Say whether one of these runs and groups has not completed. Raises `Rejected`, `Conflict`."""
        standing = await self.successors.standing(after) if after else {}
        for name in after:
            group = group_in(name)
            if name not in standing and group is not None:
                raise Rejected("unknown_group", f"after: there is no group {group!r}")
            if name not in standing:
                raise Rejected("unknown_run", f"after: there is no run {name!r}")
            status = Status(standing[name]["status"])
            if status in FINAL and status not in SUCCEEDED:
                instead = "run it again" if group is not None else "retry it, and wait for the retry"
                raise Conflict("predecessor_ended", f"after: {shown(name)} is {status}; {instead}")
        return any(each["status"] not in SUCCEEDED or each["logOpen"] for each in standing.values())

    async def enqueue_all(self, orders: Mapping[str, Order]) -> int:
        """Queue runs of one kind under derived ids, each once however often it is called; return the new."""
        deleted = await self.queue.deleted(orders)
        orders = {run_id: order for run_id, order in orders.items() if run_id not in deleted}
        if not orders:
            return 0
        alike = {
            (each.secrets, each.wanted.named_by, each.wanted.project, *each.wanted.after): each
            for each in orders.values()
        }
        for order in alike.values():
            await self.require_permitted(order)
        kind = next(iter(orders.values())).wanted.kind
        collection = KINDS[kind].queue.collection
        waiting = {
            after: await self.has_to_wait(after)
            for after in {tuple(each.wanted.after) for each in alike.values()}
        }
        # Afterwards, as for one run.
        wanted = await self._exact_all(orders)
        specs, creations = await beside_loop(kind, partial(_documents, orders, wanted, waiting))
        put_at = await self.queue.put_specs(specs)
        fresh = await self.queue.enqueue_all(collection, creations)
        made_at = await self.queue.created_at(collection, list(orders)[-1])
        if made_at is not None and made_at - put_at > SPEC_FRESH:
            await self.queue.put_specs(specs)
        return fresh

    async def _exact_all(self, orders: Mapping[str, Order]) -> dict[str, Submission]:
        """Do as `exact` for many runs; what is the same for several is looked for once."""
        found: dict[str, Submission] = {}
        known: dict[bytes, Mapping[str, Any]] = {}
        for run_id, order in orders.items():
            wanted = order.wanted
            read = {name: wanted.spec[name] for name in ("tree", "inputs") if name in wanted.spec}
            key = msgspec.json.encode([wanted.kind, read, *wanted.after], order="deterministic")
            if key not in known:
                known[key] = await self.inputs.exact(wanted.kind, read, by=wanted.by, later=wanted.after)
            found[run_id] = replace(wanted, spec={**wanted.spec, **known[key]})
        return found


def _documents(
    orders: Mapping[str, Order],
    wanted: Mapping[str, Submission],
    waiting: Mapping[tuple[str, ...], bool],
) -> tuple[dict[str, Document], dict[str, list[Document]]]:
    """Return the specification, and the pipeline that makes the run, of each order by its run's id.

    `waiting` says of each `after` whether runs wait for it.
    """
    specs = {run_id: snapshot(run_id, each) for run_id, each in wanted.items()}
    made = {
        run_id: creation(run_fields(order, waits=waiting[tuple(order.wanted.after)]), by=order.wanted.by)
        for run_id, order in orders.items()
    }
    return specs, made


def following(spec: Mapping[str, Any], after: Mapping[str, str]) -> dict[str, Any]:
    """Return a specification whose inputs are files of the runs that are waited for now, not of earlier ones.

    What an input was found to be already stays.
    """
    inputs = spec.get("inputs")
    if not isinstance(inputs, Mapping):
        return dict(spec)
    return {**spec, "inputs": {name: _of_retry(each, after) for name, each in inputs.items()}}


def _of_retry(source: object, after: Mapping[str, str]) -> object:
    if not isinstance(source, str) or not source.startswith(OF_RUN) or is_tree_id(tree_in(source)):
        return source
    run_id, slash, pattern = source.removeprefix(OF_RUN).partition("/")
    return f"{OF_RUN}{after.get(run_id, run_id)}{slash}{pattern}"


def patched(fields: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with a merge patch (RFC 7396): what it names differs, None leaves a field out. Pure."""
    found = {**fields}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            inner = found.get(name)
            found[name] = patched(inner if isinstance(inner, Mapping) else {}, value)
        else:
            found[name] = value
    return found


def _require_patchable(run: Run, from_stage: str | None) -> None:
    """Raise `Rejected` or `Conflict` where another specification would say what is not so."""
    if from_stage is not None:
        message = "a run with another spec begins anew: give `from_stage` or `spec`, not both"
        raise Rejected("two_beginnings", message)
    if run.group_id is not None:
        message = (
            f"it is a slot of group {run.group_id}, whose plan says what runs there: submit it by itself"
        )
        raise Conflict("slot_of_a_group", message)


def _inherited(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification of a retry: what no id was asked for in an older parent stays as it was."""
    effective = read_spec(kind, spec)
    return {**{name: getattr(effective, name) for name in KINDS[kind].drawn}, **spec}


async def order_of(wanted: Submission) -> Order:
    """Do as `check`, beside the event loop where another package's code takes part. Raises `Rejected`."""
    return await beside_loop(wanted.kind, partial(check, wanted))


def check(wanted: Submission) -> Order:
    """Read a submission and check that it can run. Raises `Rejected`."""
    kind_of(wanted.kind, among=RUN_KINDS)
    return read(wanted)


def read(wanted: Submission) -> Order:
    """Read a run, or an ideation, as its submitter wants it. Raises `Rejected`."""
    given = read_spec(wanted.kind, wanted.spec)
    spec = normal_of(kind_of(wanted.kind), given)
    if spec is not given:
        others = {name for name in spec.__struct_fields__ if getattr(spec, name) != getattr(given, name)}
        changed = {name: msgspec.to_builtins(getattr(spec, name)) for name in others}
        wanted = replace(wanted, spec={**wanted.spec, **changed})
    requires = read_requirements(asked_with(wanted.requires, kind_of(wanted.kind).asks(spec)))
    secrets = require_names(wanted.secrets)
    return Order(wanted, spec, requires, measures(wanted.kind, spec), secrets)


async def checked(wanted: Submission) -> CheckedRun:
    """Return what a submission would queue, every default filled in; nothing is stored. Raises `Rejected`.

    What will follow from the run's id is left out: there is none yet.
    """
    return await beside_loop(wanted.kind, lambda: _checked(check(wanted)))


def _checked(order: Order) -> CheckedRun:
    wanted = order.wanted
    spec: dict[str, Any] = msgspec.to_builtins(order.spec)
    drawn = KINDS[wanted.kind].drawn.keys() - wanted.spec.keys()
    return CheckedRun(
        kind=wanted.kind,
        title=title_of(wanted.kind, order.spec),
        measures=order.measures or None,
        class_key=class_key(wanted.kind, order.requires, wanted.project),
        priority=wanted.priority,
        labels=labels_of(order),
        spec={name: value for name, value in spec.items() if name not in drawn},
        requires=msgspec.to_builtins(order.requires),
    )


def check_stage(kind: str, stage: str) -> None:
    """Refuse a stage that a run of `kind` does not have. Raises `Rejected`."""
    stages = stages_of(kind)
    if not stages:
        message = f"a run of kind {kind} has no stages to begin at; retry it without `from_stage`"
        raise Rejected("no_stages", message)
    if stage not in stages:
        raise Rejected("unknown_stage", f"unknown stage {stage!r}; known: {', '.join(stages)}")


def snapshot(run_id: str, wanted: Submission) -> Document:
    """Return the document that stores a run's specification, with what follows from its id."""
    drawn = KINDS[wanted.kind].drawn
    return {
        **({"barrier": True} if wanted.barrier else {}),
        "kind": wanted.kind,
        "spec": {**{name: draw(run_id) for name, draw in drawn.items()}, **wanted.spec},
        "requires": dict(wanted.requires),
        "hypothesisId": wanted.hypothesis_id,
        "fromStage": wanted.from_stage,
        "traceparent": traceparent_of(wanted.traceparent, run_id),
    }


def run_fields(order: Order, *, waits: bool = False) -> dict[str, Any]:
    """Return the fields of a new run, as `creation` takes them; one that `waits` does so for other runs."""
    wanted, title = order.wanted, title_of(order.wanted.kind, order.spec)
    labels = labels_of(order)
    since = "$$NOW" if wanted.not_before is None else {"$max": ["$$NOW", {"$literal": wanted.not_before}]}
    deadline = {"$dateAdd": {"startDate": since, "unit": "second", "amount": wanted.queue_limit_s}}
    fields = {
        "kind": wanted.kind,
        "status": (Status.DELAYED if waits or wanted.not_before is not None else Status.QUEUED).value,
        "classKey": class_key(wanted.kind, order.requires, wanted.project),
        "priority": wanted.priority,
        # a start in the past is no way to the head of the queue
        "queuedAt": Expression(since),
        "notBefore": wanted.not_before,
        "queueLimitS": wanted.queue_limit_s,
        "queueDeadline": None if waits else Expression(deadline),
        "maxAttempts": wanted.max_attempts,
        "hypothesisId": wanted.hypothesis_id,
        "parentRunId": wanted.parent_run_id,
        "labels": Expression({"$literal": labels}),  # names with dots are no paths
        "labelList": label_list(labels),
        "title": title,
        "words": words_of(title),
        "submittedBy": Expression({"$literal": wanted.named_by or wanted.by}),
        "review": getattr(order.spec, "review", "none"),
    }
    if wanted.after:
        fields |= {"after": [*dict.fromkeys(wanted.after)], **({"waitsForRuns": True} if waits else {})}
    if order.secrets:
        fields["secrets"] = list(order.secrets)
    if USER_TOKEN in order.secrets:
        fields["userId"] = person_id_in(wanted.named_by)
    if wanted.group_id is not None:
        fields |= {"groupId": wanted.group_id, "slot": wanted.slot}
    if wanted.idempotency_key is not None:
        fields["idempotency"] = {"key": wanted.idempotency_key, "digest": order.digest}
    return fields


def labels_of(order: Order) -> dict[str, str]:
    """Return the labels of a run: those that its kind takes from the specification, then its submitter's."""
    found = {label: getattr(order.spec, name) for label, name in KINDS[order.wanted.kind].labels.items()}
    taken = {label: str(value)[:LABEL_CHARS_MAX] for label, value in found.items() if value is not None}
    return {**taken, **order.wanted.labels}


def label_list(labels: Mapping[str, str]) -> list[str]:
    """Return the texts by which runs with these labels are found."""
    return sorted(f"{name}={value}" for name, value in labels.items())


def words_of(text: str) -> list[str]:
    """Return the words by which a run can be found, in lower case."""
    return sorted(set(re.findall(r"\w+", text.lower())))[:WORDS_MAX]


def _digest(wanted: Submission) -> str:
    body: list[Any] = [
        wanted.kind,
        wanted.spec,
        wanted.priority,
        wanted.requires,
        wanted.max_attempts,
        wanted.not_before,
        wanted.queue_limit_s,
        wanted.labels,
        wanted.hypothesis_id,
        *([sorted(set(wanted.secrets))] if wanted.secrets else []),
        *([{"after": sorted(set(wanted.after))}] if wanted.after else []),
        *([{"project": wanted.project}] if wanted.project != DEFAULT else []),
    ]
    return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
