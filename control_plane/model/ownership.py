"""Who writes which stored field: one writer for each, and no field without one.

`docs/data.md` explains the fields in words; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from events.kinds import DOCUMENTS, NOUNS
from events.kinds.declaring.queues import QUEUES
from events.kinds.results import SORT_NAMES

Writers = Mapping[str, str]  # field to writer
# The mark of what came with an imported run, and would else count as time or money of this fleet.
IMPORTED: Final = "imported"


def _by(writer: str, *fields: str) -> dict[str, str]:
    return dict.fromkeys(fields, writer)


CLAIMABLE: Final[Writers] = {
    **_by(
        "submit", "kind", "title", "review", "words", "hypothesisId", "parentRunId", "groupId", "slot",
        "createdAt", "submittedBy", "idempotency", "secrets", "userId", "after",
    ),
    **_by("submit, release", "waitsForRuns"),
    **_by(
        "submit, change", "labels", "labelList", "queueLimitS", "classKey", "priority", "maxAttempts",
    ),
    **_by("submit, change, release", "queuedAt"),
    **_by("change", "requires"),
    **_by("submit, requeue, change, release", "queueDeadline"),
    **_by("decision, phase", "status"),
    **_by("decision", "revision", "journal", "failures", "faults", "error", "notBefore", "finishedAt"),
    **_by("claim", "attempt", "claimedBy", "claimedAt"),
    **_by("claim, renew", "lease"),
    **_by("claim, decision, settle", "tokens"),
    **_by("settle", "settled"),
    **_by("cancel", "cancelRequested"),
    **_by("review, revise", "humanVerdict"),
    **_by("review", "sealed"),
    **_by("pause, resume", "paused"),
    **_by("note", "notes"),
    **_by("start", "startAt", "node"),
    **_by("preempt", "preempt"),
    **_by("application", "lastEventSeq", "currentStage", "startedAt", "validation"),
    **_by("application", "summary", "summaryAttempt"),
    **_by("claim, settle, application, catch-up, review", "logOpen", "logIncomplete"),
    **_by("heartbeat", "lastHeartbeat"),
    **_by("repair", "lostEvents"),
    **_by("retention, import", "taken"),
    **_by("import", "importedFrom"),
}  # fmt: skip

OWNERS: Final[Mapping[str, Writers]] = {
    **dict.fromkeys(QUEUES, CLAIMABLE),
    "run_specs": {
        **_by("submit, release", "spec"),
        **_by("submit", "kind", "requires", "hypothesisId", "fromStage", "traceparent", "putAt",
              "barrier"),
        **_by("sweep", "unchecked"),
    },
    "attempts": {
        **_by("decision, application", "runId", "attempt"),
        **_by("decision", "pod", "claimedAt", "outcome", "code", "message", "fault", "endedAt", "revision"),
        **_by("decision, catch-up", "watchedUntil"),
        **_by("application", "currentStage", "startedAt", "validation", "error", "endSeq", "lastEventSeq"),
        **_by("application", "summary", "marks"),
        **_by("import", IMPORTED),
    },
    "stages": _by(
        "application", "runId", "attempt", "name", "index", "total", "status", "progress", "activity",
        "startedAt", "completedAt", "durationS", "order", "seq",
    ),
    "artifacts": _by(
        "application", "runId", "attempt", "name", "key", "size", "sha256", "contentType", "stage",
        "registeredAt", "seq",
    ),
    "results": _by(
        "application", "runId", "attempt", "set", "key", "values", "status", "detail", *SORT_NAMES, "seq",
    ),
    "validations": _by(
        "application, review", "runId", "attempt", "by", "verdict", "summary", "scores", "at",
        "conclusion", "code", "replication", "reviewer", "seq",
    ),
    "lanes": _by(
        "application", "runId", "attempt", "readyAt", "startedAt", "agreedAt", "lateS", "readyLateS",
        "hearsS", "offsetS", "boundS", "address", "seq",
    ),
    **{
        each.name: _by("application", "runId", "attempt", *each.fields, "seq") for each in DOCUMENTS
    },
    **{
        noun.collection: {name: writer for writer, names in noun.writers.items() for name in names}
        for noun in NOUNS
    },
    "events": {
        **_by(
            "ingest, sweeper", "position", "runId", "attempt", "sequence", "revision", "ceId", "source",
            "type", "time", "data", "hash", "receivedAt", "traceparent", "expiresAt", "orphan",
        ),
        **_by("import", IMPORTED),
    },
    "imports": _by("import", "digest", "by", "at"),
    "pods": {
        **_by(
            "report", "pod", "mode", "region", "kinds", "state", "runId", "attempt", "version",
            "capabilities", "labels", "telemetry", "checks", "resets", "clockOffsetS", "delivery",
            "reportedAt", "startedAt", "keyId", "usdPerHour",
        ),
        **_by("drain, restart, reset", "orders"),
        **_by("look", "lookedUntil"),
    },
    "pod_lives": _by(
        "expiry", "startedAt", "reportedAt", "usdPerHour", "keyId", "capabilities", "expiresAt",
    ),
    "live_texts": _by("live text", "at", "expiresAt", "topics", "pieces"),
    "pod_telemetry": _by("report", "podId", "from", "samples", "expiresAt"),
    "schedules": {
        **_by(
            "author", "cron", "timeZone", "missed", "overlap", "run", "group", "createdBy", "createdAt",
            "updatedAt", "paused", "pausedBy", "pausedAt", "pauseNote",
        ),
        **_by("author, scheduler", "nextAt", "last", "error", "revision"),
    },
    "groups": {
        **_by("author", "idempotency", "createdBy", "createdAt"),
        **_by("author, edit", "run", "plan", "namedBy"),
        **_by("author, again", "round", "first", "since", "rounds"),
        **_by("again", "tick"),
        **_by("advancer", "next", "filled", "pending", "counts", "start"),
        **_by("cancel, again", "canceled"),
        **_by("retry, advancer", "holdUntil"),
        **_by("decision", "status", "revision", "journal", "updatedAt"),
    },
    "webhooks": {
        **_by("author", "format", "place", "filters", "createdBy", "createdAt"),
        **_by("author, rotation", "sealed", "keyId", "previousUntil"),
        **_by("author, deliverer", "enabled", "disabledWhy", "since", "updatedAt", "revision"),
    },
    "deliveries": {
        **_by("gatherer, test", "webhookId", "type", "subject", "body", "createdAt"),
        **_by("gatherer, test, deliverer, replay", "state", "tries", "dueAt", "expiresAt", "lastProblem"),
        **_by("gatherer, test, deliverer", "lastStatus", "lastAt"),
    },
    "notification_cursors": _by("gatherer", "since", "revision"),
    "usage_levels": {
        **_by("usage watcher", "subject", "measure", "path", "level", "crossings"),
        **_by("usage watcher", "revision", "updatedAt", "expiresAt"),
    },
    "boards": _by(
        "author", "page", "query", "createdBy", "createdAt", "updatedBy", "updatedAt", "revision",
    ),
    "models": {
        **_by("author, sync", "title", "endpoint", "inputUsdPerMtok", "outputUsdPerMtok", "contextTokens",
              "answerTokensMax", "createdBy", "createdAt", "updatedBy", "updatedAt", "revision"),
        **_by("author", "served", "concurrencyMax"),
        **_by("sync", "syncedFrom", "syncedAt"),
    },
    "trees": {
        **_by("author", "size", "files", "chunks", "manifestSize", "digests", "run", "keys", "createdBy",
              "createdAt", "pending"),
        **_by("author, use, sweep", "usedAt"),
    },
    "object_removals": _by("sweep", "objects", "at"),
    "data_sets": {
        **_by("author", "name", "version", "size", "files", "createdBy", "createdAt"),
        **_by("author, removal", "tree"),
        **_by("removal", "removedBy", "removedAt"),
    },
    "secrets": {
        **_by("author", "kinds", "keys", "setBy", "setAt", "createdAt"),
        **_by("author, rotation", "sealed", "keyId"),
    },
    "projects": _by("author", "weight", "quotas", "setBy", "setAt", "createdAt"),
    "project_usage": _by("fair sharer", "at", "since", "costsSince", "used", "revision"),
    "shares": _by("fair sharer", "at", "projects"),
    "tombstones": {
        **_by("deletion", "kind", "project", "hypothesisId", "groupId", "slot", "status", "createdAt",
              "finishedAt", "deletedAt", "by", "attempts", "counts", "bytes", "idempotency", "tokens",
              "runs"),
        **_by("deletion, removal", "dueAt", "removedAt", "tries", "trouble"),
    },
    "retention": _by("author", "what", "days", "kind", "label", "setBy", "setAt"),
    "retention_sweeps": _by("retention", "at", "waiting", "taken", "bytes", "trouble", "revision", "sweptAt"),
    "early_lines": _by(
        "ingest", "runId", "attempt", "sequence", "hash", "line", "principal", "expiresAt",
    ),
    "store_state": {
        **_by("migrate, restore", "version", "worksBeside"),
        **_by("restore", "backup", "at"),
    },
    "dead_letters": _by(
        "ingest, application", "at", "code", "message", "line", "runId", "attempt", "sequence", "principal",
        "expiresAt",
    ),
}  # fmt: skip


def strangers(collection: str, document: Mapping[str, Any]) -> list[str]:
    """Return the fields of a stored document that nobody writes."""
    return sorted(set(document) - set(OWNERS[collection]) - {"_id"})
