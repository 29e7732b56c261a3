"""Every question that pages and programs ask of a filled store: each route, each filter, near and deep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final
from urllib.parse import quote, urlencode

from pymongo.database import Database

from control_plane.reads.paging import encode
from events.lifecycle import Status

Db = Database[dict[str, Any]]

NOBODY: Final = "nobody"
STATES: Final = (Status.QUEUED, Status.DELAYED, Status.RUNNING, Status.AWAITING_HUMAN, Status.FAILED)
COMPARED: Final = 8
TABS: Final = ("/results", "/metrics", "/validation", "/files", "/attempts", "/spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Things of a store to ask for; `middle` is a run with as many before as behind it."""

    runs: Mapping[str, str]  # by what they stand for
    middle: str
    middle_hypothesis: str
    middle_position: str  # in the log of `runs["long"]`
    hypothesis: str
    label: str
    pod: str
    live_pod: str
    artifact: str
    word: str
    compared: Sequence[str]


def known(db: Db, long_run: str) -> Known:
    """Look around in a store; `long_run` is the run with the longest log."""
    newest = [("_id", -1)]

    def first(collection: str, query: Mapping[str, Any], skip: int = 0) -> dict[str, Any]:
        return next(db[collection].find(dict(query)).sort(newest).skip(skip).limit(1))

    half = db.runs.estimated_document_count() // 2
    middle = first("runs", {}, half)
    tried = first("runs", {"kind": "experiment", "status": "COMPLETED", "hypothesisId": {"$ne": None}})
    lines = db.events.count_documents({"runId": long_run})
    position = next(db.events.find({"runId": long_run}).sort("position", 1).skip(lines // 2).limit(1))
    wanted = {"kind": "experiment", "status": "COMPLETED"}
    compared = db.runs.find(wanted, {"_id": 1}).sort(newest).limit(COMPARED)
    # a store is small, or alive, and may have none in a state
    states = {status.lower(): db.runs.find_one({"status": status.value}) for status in STATES}
    in_states = {name: run["_id"] for name, run in states.items() if run is not None}
    return Known(
        runs={"experiment": tried["_id"], "long": long_run} | in_states,
        middle=middle["_id"],
        middle_hypothesis=first("hypotheses", {}, db.hypotheses.estimated_document_count() // 2)["_id"],
        middle_position=position["position"],
        hypothesis=tried["hypothesisId"],
        label=tried["labelList"][0],
        pod=tried["claimedBy"],
        live_pod=first("pods", {})["_id"],
        artifact=first("artifacts", {})["_id"],
        word=max(tried["words"], key=len),
        compared=[each["_id"] for each in compared],
    )


def questions(of: Known) -> dict[str, dict[str, str]]:
    """Return the address of each question, by its group and by a name that says what is asked."""
    groups = {
        "lists of runs": _lists(of),
        "run pages": _runs(of),
        "a long log": _log(of),
        "hypotheses": _hypotheses(of),
        "pods": _pods(of),
        "fleet": _fleet(of),
    }
    return {name: dict(asked) for name, asked in groups.items()}


def _lists(of: Known) -> Iterator[tuple[str, str]]:
    filters = {
        "status": "FAILED",
        "kind": "experiment",
        "label": of.label,
        "hypothesis": of.hypothesis,
        "pod": of.pod,
        "region": "eu-de",
        "q": of.word,
    }
    others = (
        {"status": "RUNNING"},
        {"status": "CANCELING"},
        {"kind": "benchmark"},
        {"label": NOBODY},
        {"q": "a"},
        {"q": "does improve"},
        {"q": f"does {NOBODY}"},
        {"q": of.middle},
        {"q": of.middle[:6]},
        {"q": "does", "status": "CANCELING"},
        {"kind": "probe", "region": NOBODY},
    )
    asked: list[dict[str, str]] = [{}, *({name: value} for name, value in filters.items()), *others]
    asked += [dict(pair) for pair in combinations(filters.items(), 2)]
    deep = {"after": encode("runs", of.middle)}
    for each in asked:
        name = " ".join(f"{key}={value}" for key, value in each.items()) or "all"
        yield f"/api/runs {name}", _address("/api/runs", each)
        yield f"/api/runs {name}, deep", _address("/api/runs", each | deep)
    for each in asked[: len(filters) + 1]:
        yield f"/runs {' '.join(each) or 'all'}", _address("/runs", each)
    yield "/runs deep", _address("/runs", deep)
    yield "/runs 200", _address("/runs", {"limit": "200"})
    yield "/reviews", "/reviews"
    yield "/reviews deep", _address("/reviews", deep)


def _runs(of: Known) -> Iterator[tuple[str, str]]:
    for name, run_id in of.runs.items():
        for below in ("", "/explain", "/nodes", "/artifacts", "/results", "/results/export"):
            yield f"/api/runs/ {name}{below}", f"/api/runs/{run_id}{below}"
        yield f"/runs/ {name}", f"/runs/{run_id}"
        for tab in TABS:
            yield f"/runs/ {name}{tab}", f"/runs/{run_id}{tab}"
    for tab in ("/kind/tree", "/kind/paper"):
        yield f"/runs/ experiment{tab}", f"/runs/{of.runs['experiment']}{tab}"
    yield "/runs/compare", _address("/runs/compare", [("ids", each) for each in of.compared])
    yield (
        "/runs/bulk",
        _address("/runs/bulk", [("action", "cancel"), *(("ids", each) for each in of.compared)]),
    )


def _log(of: Known) -> Iterator[tuple[str, str]]:
    filters: tuple[dict[str, str], ...] = (
        {},
        {"type": "ai.run.log"},
        {"type": "ai.run.stage_started"},
        {"level": "error"},
        {"level": "info"},
        {"text": "loss"},
        {"text": NOBODY},
        {"type": "ai.run.log", "text": NOBODY},
        {"level": "warn", "text": NOBODY},
    )
    path, tab = f"/runs/{of.runs['long']}/events", f"/runs/{of.runs['long']}/log"
    for each in filters:
        name = " ".join(f"{key}={value}" for key, value in each.items()) or "all"
        yield f"{{run}}/log {name}", _address(tab, each)
        for order, cursor in (("newest", "events, newest first"), ("oldest", "events")):
            asked = each | {"order": order}
            deep = {"after": encode(cursor, of.middle_position)}
            yield f"/api{{run}}/events {name}, {order}", _address(f"/api{path}", asked)
            yield f"/api{{run}}/events {name}, {order}, deep", _address(f"/api{path}", asked | deep)
    yield "{run}/log at", _address(tab, {"at": of.middle_position})
    yield "{run}/events at", _address(path, {"at": of.middle_position})


def _hypotheses(of: Known) -> Iterator[tuple[str, str]]:
    yield "/api/data-uses", "/api/data-uses"
    yield "/api/data-uses of one", _address("/api/data-uses", {"data": "digits"})
    for path in ("/api/hypotheses", "/hypotheses"):
        yield path, path
        yield f"{path} 200", _address(path, {"limit": "200"})
        yield f"{path} deep", _address(path, {"after": encode("hypotheses", of.middle_hypothesis)})
        yield f"{path}/", f"{path}/{of.hypothesis}"


def _pods(of: Known) -> Iterator[tuple[str, str]]:
    for path in ("/api/pods", "/pods"):
        yield path, path
        yield f"{path} 200", _address(path, {"limit": "200"})
        yield f"{path} region", _address(path, {"region": "eu-de"})
        yield f"{path} region, none", _address(path, {"region": NOBODY})
        yield f"{path}/", f"{path}/{quote(of.live_pod)}"
    yield "/api/pods//attempts", f"/api/pods/{quote(of.pod)}/attempts"
    yield "/api/pods//attempts 200", f"/api/pods/{quote(of.live_pod)}/attempts?limit=200"
    yield "/api/pods//telemetry", f"/api/pods/{quote(of.live_pod)}/telemetry"


def _fleet(of: Known) -> Iterator[tuple[str, str]]:
    paths = (
        "/",
        "/api/queue",
        "/metrics",
        "/numbers",
        "/ledger",
        "/api/ledger",
        "/api/ledger/export",
        "/groups",
        "/api/groups",
        "/schedules",
        "/api/schedules",
        "/api/keys",
        "/api/audit",
    )
    yield from zip(paths, paths, strict=True)
    yield "/api/artifacts/", f"/api/artifacts/{quote(of.artifact)}"
    for name, value in (("action", "POST /api/runs"), ("by", "loopback"), ("object", f"run/{of.middle}")):
        yield f"/api/audit {name}", _address("/api/audit", {name: value})


def _address(path: str, asked: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(asked)}" if asked else path
