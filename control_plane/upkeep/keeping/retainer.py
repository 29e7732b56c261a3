"""Carries out the rules of retention: page by page, in the order in which runs ended.

Law: a run says that something of it is taken before that is removed, and that it is gone afterwards. What is
needed by what has not ended waits, and is looked at again in each round. Each step may be made twice, and by
several replicas at once: the place of a sweep moves after its page was done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.concurrency.loops import serve_all
from control_plane.files.archives.exporter import NOT_BROUGHT
from control_plane.model.presentation import plain
from control_plane.model.views.document_mapping import from_document
from control_plane.store.database import Document
from control_plane.store.log.retention import PAGE_MAX, RULES_MAX, Retention
from control_plane.upkeep.keeping.deleter import REMOVED_AT_ONCE, Deleter
from control_plane.upkeep.keeping.retention import (
    CHECKPOINTS,
    DEFAULTS,
    FILES,
    RUNS,
    Rule,
    effective,
    is_taken,
)
from events.answers.access.keeping import RetentionPreview, RetentionRule
from events.files.checkpoints import checkpoint_of
from events.runtime.clock import Clock
from events.runtime.errors import Conflict, Gone, NotFound, PodfleetError

log = logging.getLogger(__name__)

TICK_S: Final = 60.0
PAGES_MAX: Final = 5  # of a rule in one round: the other rules wait for it
PREVIEWED_MAX: Final = 1_000
WAITING_MAX: Final = 1_000
REST: Final = 9.0  # times as long as it works: claims have nine tenths of what it would take
TROUBLE_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class _Judged:
    """Runs of which a rule takes something now, and those that something still needs."""

    due: Sequence[str]
    needed: Sequence[str]


@dataclass(frozen=True, slots=True)
class Retainer:
    """Sets, shows and carries out rules. Several replicas may. Raises `NotFound`, `Conflict`."""

    store: Retention
    deleter: Deleter
    clock: Clock
    rest: float = REST

    async def rules(self) -> list[RetentionRule]:
        """Return the rules that hold, and how far each was carried out."""
        stored = {each["_id"]: each for each in await self.store.rules()}
        return [await self._shown(each, stored.get(each.id)) for each in effective(stored.values())]

    async def put(self, rule: Rule, *, by: str) -> RetentionRule:
        """Set a rule."""
        known = await self.store.rules()
        if len(known) >= RULES_MAX and rule.id not in {each["_id"] for each in known}:
            raise Conflict("too_many_rules", f"there are {RULES_MAX} rules: remove one first")
        fields = {"what": rule.what, "days": rule.days, "kind": rule.kind, "label": rule.label}
        await self.store.put(rule.id, fields, by)
        return next(each for each in await self.rules() if each.id == rule.id)

    async def remove(self, rule_id: str) -> None:
        """Remove a rule; in the place of one that changed a default the default holds again."""
        if not await self.store.remove(rule_id):
            if rule_id in {each.id for each in DEFAULTS}:
                message = f"{rule_id} is a default: set it without days, and it takes nothing"
                raise Conflict("default_rule", message)
            raise _unknown(rule_id)

    async def preview(self, rule_id: str) -> RetentionPreview:
        """Return what the next rounds would take, of a thousand runs at most."""
        rule = next((each for each in effective(await self.store.rules()) if each.id == rule_id), None)
        if rule is None:
            raise _unknown(rule_id)
        sweep, due, needed, size, looked_at = await self.store.sweep(rule_id), 0, 0, 0, 0
        before, after = rule.ended_before(self.clock.now()), sweep["at"]
        page = await self.store.of(sweep["waiting"][:PAGE_MAX]) if before else []
        while before is not None and looked_at < PREVIEWED_MAX:
            judged = await self._judge(rule, page)
            due, needed, looked_at = due + len(judged.due), needed + len(judged.needed), looked_at + len(page)
            for run_id in judged.due:
                size += sum(bytes_ for _, bytes_ in await self._files(rule, run_id))
            page = await self.store.ended(after, before)
            if not page:
                break
            after = page[-1]["finishedAt"]
        return RetentionPreview(id=rule_id, runs=due, needed=needed, bytes=size, is_whole=not page)

    async def require_kept(self, run_id: str, name: str) -> None:
        """Raise `Gone` for a file of a run that a rule has taken."""
        taken = await self.store.taken(run_id)
        what = FILES if checkpoint_of(name) is None else CHECKPOINTS
        if is_taken({"taken": taken}, what):
            mark = taken[what]
            message = f"{name} was removed by retention rule {mark['by']} on {mark['at']:%Y-%m-%d}"
            if mark["by"] == NOT_BROUGHT:
                message = f"{name} was not in the archive from which its run was imported"
            raise Gone("taken", message)

    async def run_once(self) -> int:
        """Carry out every rule a bit further; return of how many runs something was taken."""
        rules = effective(await self.store.rules())
        return sum(await serve_all(rules, self._carry_out, at_once=1))

    async def _carry_out(self, rule: Rule) -> int:
        before, taken = rule.ended_before(self.clock.now()), 0
        for turn in range(PAGES_MAX):
            if before is None:
                return taken
            sweep = await self.store.sweep(rule.id)
            again = sweep["waiting"][:PAGE_MAX] if turn == 0 else []
            page = await self.store.ended(sweep["at"], before)
            if not page and not again:
                return taken
            judged = await self._judge(rule, [*await self.store.of(again), *page])
            results = [await self._take_and_rest(rule, each) for each in judged.due]
            failed = {run_id: why for run_id, _, why in results if why is not None}
            done = len(results) - len(failed)
            waiting = [*sweep["waiting"][len(again) :], *judged.needed, *failed][-WAITING_MAX:]
            fields = {
                "at": page[-1]["finishedAt"] if page else sweep["at"],
                "waiting": waiting,
                "taken": sweep["taken"] + done,
                "bytes": sweep["bytes"] + sum(size for _, size, why in results if why is None),
                "trouble": next(iter(failed.values()), None),
            }
            if not await self.store.move(sweep, fields):
                return taken  # another replica is at it
            taken += done
            if len(page) < PAGE_MAX:
                return taken
        return taken

    async def _judge(self, rule: Rule, runs: Sequence[Mapping[str, Any]]) -> _Judged:
        wanted = [each["_id"] for each in runs if rule.takes(each)]
        needed = await self.deleter.removals.needed(wanted) if wanted else {}
        return _Judged([each for each in wanted if each not in needed], [*needed])

    async def _take_and_rest(self, rule: Rule, run_id: str) -> tuple[str, int, str | None]:
        begun_s = self.clock.monotonic_s()
        taken = await self._take(rule, run_id)
        await asyncio.sleep(self.rest * (self.clock.monotonic_s() - begun_s))
        return taken

    async def _take(self, rule: Rule, run_id: str) -> tuple[str, int, str | None]:
        """Take what a rule takes of a run; return the bytes, and why it cannot be taken now."""
        by = f"retention:{rule.id}"
        try:
            if rule.what == RUNS:
                return run_id, (await self.deleter.delete(run_id, by=by)).bytes, None
            files = await self._files(rule, run_id)
            if files:
                await self.store.begin(run_id, rule.what, rule.id)
            storage = self.deleter.storage
            await serve_all([key for key, _ in files], storage.remove, at_once=REMOVED_AT_ONCE)
            if rule.what == FILES:
                await self.store.drop_trees(run_id)
            await self.store.conclude(run_id, rule.what)
        except Gone:
            return run_id, 0, None
        except PodfleetError as error:
            why = f"{run_id}: {error.code}: {error.message}"[:TROUBLE_CHARS_MAX]
            log.warning("retention.postponed", extra={"rule": rule.id, "run": run_id, "why": why})
            return run_id, 0, why
        return run_id, sum(size for _, size in files), None

    async def _files(self, rule: Rule, run_id: str) -> list[tuple[str, int]]:
        both = (True, False) if rule.what == RUNS else (rule.what == CHECKPOINTS,)
        return [file for each in both for file in await self.store.files(run_id, checkpoints=each)]

    async def _shown(self, rule: Rule, stored: Document | None) -> RetentionRule:
        sweep = await self.store.sweep(rule.id)
        return from_document(
            RetentionRule,
            {**(stored or {}), "_id": rule.id, "what": rule.what, "days": rule.days, "kind": rule.kind,
             "label": rule.label},
            is_default=stored is None,
            swept_at=plain(sweep.get("sweptAt")),
            taken=sweep["taken"],
            bytes=sweep["bytes"],
            waiting=len(sweep["waiting"]),
            trouble=sweep.get("trouble"),
        )  # fmt: skip


def _unknown(rule_id: str) -> NotFound:
    return NotFound("unknown_rule", f"there is no rule of retention {rule_id!r}")
