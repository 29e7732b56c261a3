"""Whatever a pod says of its run, every page and answer of the run is one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, timedelta
from types import SimpleNamespace
from typing import Any, Final

import bson
import msgspec
import pytest
from bson.codec_options import CodecOptions
from hypothesis import given
from hypothesis import strategies as st

from control_plane.kinds.experiment.parts import page_of_nodes
from control_plane.model.projection import AttemptView, attempt_id, fold
from control_plane.reads.kinds.loops import KindLoops
from control_plane.reads.reading import Reading
from control_plane.server.api.runs import LogFilters
from control_plane.server.web import sections
from control_plane.server.web.page_renderer import Pages, Site
from control_plane.server.web.pages.compare import ComparePages, Wanted
from control_plane.server.web.run_pages.headline import Headline
from control_plane.server.web.run_pages.other_tabs import (
    MetricsView,
    files_tab,
    kind_tab,
    log_tab,
    metrics_tab,
    sections_tab,
    spec_tab,
)
from control_plane.server.web.run_pages.overview import overview
from control_plane.server.web.run_pages.tabs import OF_EVERY_RUN
from control_plane.store.log.documents import view_fields
from control_plane.store.log.events import Arrival, storable
from control_plane.store.pages import Slice
from control_plane.store.reads import Part
from events import formatting
from events.catalog import RESERVED, TYPES, NoteAnswered, StageMetric, StageProgress, type_of
from events.codec import decode_structured
from events.envelope import Event, Head, encode
from events.kinds.declaring.fact import Fact
from events.runtime.errors import NotFound
from events.testing import EPOCH, RUN_ID, SOURCE, ManualClock, SeededIds
from events.text.attempt_id import AttemptId

PAGES: Final = Pages("http://storage")
OPTIONS: Final = CodecOptions(tz_aware=True, tzinfo=UTC)
MOMENT: Final = "2026-01-01T00:00:00Z"
RUN: Final[dict[str, Any]] = {
    **dict.fromkeys(
        (
            "claimedBy", "claimedAt", "lease", "settled", "cancelRequested", "logIncomplete", "lastHeartbeat",
            "notBefore", "hypothesisId", "parentRunId", "finishedAt",
        )
    ),
    "_id": RUN_ID, "kind": "experiment", "title": "odd", "classKey": "experiment/cpu/any", "attempt": 1,
    "labels": {}, "labelList": [], "words": [], "priority": 0, "maxAttempts": 3, "queuedAt": EPOCH,
    "queueDeadline": EPOCH, "createdAt": EPOCH, "logOpen": True, "journal": [], "paused": False, "notes": [],
    "revision": 2, "lastEventSeq": 0,
}  # fmt: skip


def event_of(event_type: str, sequence: int, data: dict[str, Any], moment: str = MOMENT) -> Event | None:
    """Return an event as ingest takes it; None where that refuses it."""
    line = encode(
        event_type,
        data,
        Head(
            id=str(sequence), source=SOURCE, attempt_id=AttemptId(RUN_ID, 1), sequence=sequence, time=moment
        ),
    )
    outcome = decode_structured(line)
    return outcome if isinstance(outcome, Event) else None


def arrival(number: int) -> Arrival:
    return Arrival(f"{number:08}", EPOCH + timedelta(seconds=number))


class Store:
    """What is stored of a run under way of which a pod has said some events."""

    def __init__(self, log: Sequence[Event], *, status: str = "RUNNING") -> None:
        folded = fold(AttemptView(RUN_ID, 1), list(log), 0)
        view = view_fields(folded.view)
        seen = {name: view[name] for name in ("currentStage", "startedAt", "validation")}
        self.run = {**RUN, **seen, "error": None, "status": status}
        if status == "FAILED":
            self.run["error"] = {"code": None, "message": None, "stage": None, "attempt": 1}
        found = [(each.collection, {"_id": each.id, "seq": each.seq, **each.fields})
                 for each in folded.writes.values()]  # fmt: skip
        found.append(("attempts", {"_id": attempt_id(RUN_ID, 1), **view}))
        found.append(("attempts", {"_id": attempt_id(RUN_ID, 2), "runId": RUN_ID, "attempt": 2, "pod": "p"}))
        self.stored = [(name, bson.decode(bson.encode(each), OPTIONS)) for name, each in found]
        self.log = [bson.decode(storable(each, arrival(number)).raw, OPTIONS)
                    for number, each in enumerate(log)]  # fmt: skip

    def of_types(self, *types: str) -> list[dict[str, Any]]:
        return [each for each in self.log if each["type"] in types]

    async def find(self, run_id: str) -> dict[str, Any]:
        return self.run

    async def of_ids(self, run_ids: Sequence[str]) -> list[dict[str, Any]]:
        return [{**self.run, "_id": run_id} for run_id in run_ids]

    async def spec(self, run_id: str) -> dict[str, Any]:
        return {"spec": {"idea": "x", "seed": len(run_id)}, "requires": {}}

    async def beside(self, collection: str, run_ids: Sequence[str], order: object) -> Part:
        return Part([each for name, each in self.stored if name == collection], False)

    async def part(self, collection: str, query: dict[str, Any], *_: object) -> Part:
        found = self.of_types(*query["type"]["$in"])
        named = query.get("data.node", {}).get("$in")
        return Part([each for each in found if named is None or each["data"]["node"] in named], False)

    async def usage(self, run_ids: Sequence[str]) -> list[dict[str, Any]]:
        return []

    async def note_answers(self, run_id: str) -> Part:
        return Part(self.of_types(type_of(NoteAnswered)), False)

    async def successors(self, run_id: str) -> list[str]:
        return []

    async def progress(self, run_id: str) -> list[dict[str, Any]]:
        return self.of_types(type_of(StageProgress))[::-1]

    async def metrics(self, run_id: str, most: int) -> list[dict[str, Any]]:
        return self.of_types(type_of(StageMetric))[::-1]

    async def artifacts_of_types(
        self, run_ids: Sequence[str], content_types: Sequence[str]
    ) -> list[dict[str, Any]]:
        return [each for name, each in self.stored if name == "artifacts"]

    async def events(self, run_id: str, **_: Any) -> Slice:
        return Slice(self.log, None)


def reading_of(store: Store) -> Reading:
    reads: Any = store
    clock: Any = ManualClock()
    clock.advance(30)
    tallies: Any = SimpleNamespace(count=nothing, running=nothing)
    nobody: Any = None
    return Reading(reads, tallies, nobody, nobody, nobody, nobody, nobody, clock, KindLoops(lambda: reads))


async def nothing(*_: object) -> int:
    return 0


def site_of(store: Store) -> Site:
    deps: Any = SimpleNamespace(
        reading=reading_of(store),
        feed=SimpleNamespace(token=""),
        ids=SeededIds(),
        authenticator=SimpleNamespace(is_open=nothing),
    )
    return Site(deps, PAGES)


def pages_of(store: Store) -> list[str]:
    """Return every page and answer of the run; its tabs beside the log are the first, in one text."""
    site = site_of(store)

    async def read() -> list[str]:
        reading = site.deps.reading
        parts = reading.parts.get("experiment", ())
        own = {each.tab for each in sections.placed("experiment", parts)}
        tabs = [
            await overview(site, RUN_ID),
            *[await sections_tab(site, RUN_ID, each) for each in ("validation", "attempts")],
            *[await kind_tab(site, RUN_ID, each) for each in sorted(own - OF_EVERY_RUN)],
            await metrics_tab(site, RUN_ID, MetricsView()),
            await files_tab(site, RUN_ID, None),
            await spec_tab(site, RUN_ID),
        ]  # fmt: skip
        drawn = [Wanted(ids=[RUN_ID, RUN_ID[1:]], log=log, seeds=seeds, smooth=0.9)
                 for log in ("", "on") for seeds in ("mean", "each")]  # fmt: skip
        html = [
            await log_tab(site, RUN_ID, LogFilters()),
            *[await ComparePages(site).one(each) for each in drawn],
        ]
        answer = [await reading.run(RUN_ID), await reading.events(RUN_ID),
                await page_of_nodes(reading, RUN_ID)]  # fmt: skip
        first = "".join(bytes(each.body).decode() for each in tabs)
        return [first, *[bytes(each.body).decode() for each in html]] + [
            json.dumps(msgspec.to_builtins(each), allow_nan=False) for each in answer
        ]

    return asyncio.run(read())


NAMES: Final = ("items", "copy", "keys", "get", "clear", "S/1", "", " ", "<b>", "x unseen", "x" * 200)
TINY: Final = 5e-324
NUMBERS: Final = (0, -1, 1, 2**62, 2**62 + 2048, -(2**63), 0.5, TINY, 1e-323, 1e-320, 1e101, 1e308, -1e308)
ODD: Final = st.sampled_from(
    (*NAMES, *NUMBERS, None, True, [], {}, [[]], {"items": {}}, {"a": [5]}, ["x"], "image/png")
)
WRITABLE: Final = sorted(set(TYPES) - RESERVED)
# what pages show of nodes and numbers is folded and drawn: that is said more often
DRAWN: Final = [each for each in WRITABLE if ".node." in each] + [type_of(StageMetric)] * 6
KEYS: Final = st.sampled_from(
    (*NAMES, "idea", "number", "why", "reviews", "meta_review", "decided_by", "Title")
)
FIELDS: Final = sorted({field for each in DRAWN for field in TYPES[each].__struct_fields__})
MOMENTS: Final = (MOMENT, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "2026-01-01T00:00:20Z")
# of each type the least that is taken
LEAST: Final[dict[str, Any]] = {
    "stage": "items", "node": "keys", "progress": 1e-320, "name": "copy", "value": 0.5, "message": "",
    "code": "c", "plan": "",
    "buggy": True, "seconds": 1e308, "from_attempt": 1, "verdict": "pass", "ideas": [], "size": 1,
    "key": f"runs/{RUN_ID}/a1/copy", "sha256": "0" * 64, "refused_type": "t",
    "metric": "m", "direction": "d", "unit": "u", "units": 1, "rows": 2, "test_rows": 1, "estimator": "e",
    "test": "t", "level": 0.5, "stopping": "s", "data": "d", "part": "test", "measurement": "m", "says": "s",
    "conclusion": "supported", "number": 1, "outcome": "taken", "set": "s", "values": {"v": 0.5},
    "offset_s": -0.5, "bound_s": 0.1, "hears_s": 0.5, "agreed": "2026-01-01T00:00:00Z", "late_s": 0.0,
    "ready_late_s": 0.0, "suite": "s", "keys": ["k"],
}  # fmt: skip


def least(fact: type[Fact]) -> dict[str, Any]:
    return {name.name: LEAST[name.name] for name in msgspec.structs.fields(fact) if name.required}


def some(data: dict[str, Any], odd: dict[str, Any], event_type: str) -> dict[str, Any]:
    """Return data with as much of what is odd as the catalogue lets in."""
    for name, value in odd.items():
        if event_of(event_type, 1, {**data, name: value}) is not None:
            data = {**data, name: value}
    return data


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    types = draw(st.lists(st.sampled_from(WRITABLE + DRAWN), min_size=1, max_size=8))
    log: list[Event] = []
    for number, event_type in enumerate(types, 1):
        odd = draw(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=8))
        event = event_of(event_type, number, some(least(TYPES[event_type]), odd, event_type),
                     draw(st.sampled_from(MOMENTS)))  # fmt: skip
        assert event is not None
        log.append(event)
    return log


@given(logs(), st.sampled_from(("RUNNING", "FAILED", "AWAITING_HUMAN")))
def test_every_run_has_its_pages(log: list[Event], status: str) -> None:
    for page in pages_of(Store(log, status=status)):
        assert page


def lines(*pairs: tuple[str, dict[str, Any]]) -> list[Event]:
    found = [event_of(event_type, number, data) for number, (event_type, data) in enumerate(pairs, 1)]
    assert None not in found
    return [each for each in found if each is not None]


def test_a_run_of_which_everything_is_odd_has_its_pages() -> None:
    metrics = ((5e-324, 0), (1e-323, 1), (0.5, 2**62), (1e101, 2**62 + 2048), (1e308, 3), (-1e308, 4))
    log = lines(
        ("ai.run.stage_completed", {"stage": "copy", "duration_s": -1e308}),
        ("ai.run.stage_progress", {"stage": "items", "progress": 1e-320, "activity": None}),
        ("ai.node.completed", {"stage": "items", "node": "keys", "buggy": False, "seconds": 1e308, "plan": 5,
                               "parent": {"a": []}, "params": [5]}),
        ("ai.node.executing", {"stage": "copy", "node": "get", "parent": ["x"], "plan": {}, "scores": 5}),
        ("ai.node.created", {"stage": "copy", "node": "get", "plan": "p", "parent": "get", "code": [1]}),
        ("ai.node.selected_best", {"stage": "copy", "node": "get", "mean": 1e308, "seeds": [2**62] * 40}),
        *[("ai.run.stage_metric", {"stage": f"{n}", "name": "n", "value": value, "step": step})
          for n in range(3) for value, step in metrics[2 * n : 2 * n + 2]],
        ("ai.run.started", {"level": "x unseen", "message": ["x"]}),
        ("ai.validation.auto_completed", {"verdict": "pass", "scores": {"reviews": [{"items": {}}]}}),
    )  # fmt: skip
    for status in ("RUNNING", "FAILED", "AWAITING_HUMAN"):
        page, events, *compared = pages_of(Store(log, status=status))
        assert re.findall(r'<tr id="n-(\w+)"', page) == ["keys", "get"]
        assert page.count('<svg class="chart"') == 2, "and what is too great to draw is said in words"
        assert 'class="l-x' not in events
        assert all("1e+308" in each for each in compared[:4])


def test_the_page_of_a_run_that_never_began_a_stage_shows_its_progress() -> None:
    for event_type, more in (("ai.run.stage_progress", {"progress": 0.5}), ("ai.run.stage_completed", {})):
        page, *_ = pages_of(Store(lines((event_type, {"stage": "train", **more}))))
        assert "<td>train</td>" in page


def test_stages_and_nodes_may_have_the_names_of_methods() -> None:
    pairs = []
    for name in ("items", "copy", "keys"):
        pairs += [
            ("ai.run.stage_started", {"stage": name}),
            ("ai.node.created", {"stage": name, "node": name, "plan": "p"}),
            ("ai.run.stage_progress", {"stage": name, "progress": 1e-320}),
        ]
    page, *_ = pages_of(Store(lines(*pairs)))
    assert re.findall(r'<tr id="n-(\w+)"', page) == ["items", "copy", "keys"]
    assert "at its pace it would take more than a year" in page.lower()


class Unasked(Store):
    """A store that nobody may ask for what belongs to one kind alone."""

    async def part(self, collection: str, query: dict[str, Any], *_: object) -> Part:
        raise AssertionError(f"{query} was asked")


def test_a_run_is_asked_for_the_parts_of_its_own_kind_only() -> None:
    store = Unasked(lines(("ai.run.started", {})))
    assert asyncio.run(reading_of(store).run(RUN_ID)).sections[0].problem
    store.run |= {"kind": "probe"}
    answer = asyncio.run(reading_of(store).run(RUN_ID))
    assert (answer.rows["nodes"], answer.rows["ideas"], answer.sections) == ([], [], [])
    store.run |= {"kind": "of a package that is not installed here"}
    assert asyncio.run(reading_of(store).run(RUN_ID)).sections == []


class Watched(list[Any]):
    """A list that knows how many of its values somebody looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            Watched.looked_at += 1
            yield each


def test_an_event_of_many_values_is_cut_before_it_is_looked_at() -> None:
    pairs = [("ai.node.created", {"stage": "S", "node": f"S/{n}", "plan": "p"}) for n in range(17)]
    store = Store(lines(*pairs))
    for each in store.log:  # as from before events had a limit of values
        each["data"]["params"] = {"a": Watched([[]] * 85_000)}
    answer = asyncio.run(reading_of(store).run(RUN_ID))
    assert 0 < Watched.looked_at < 85_000
    assert len(answer.rows["nodes"]) == 17
    assert answer.rows["nodes"][0]["params"]["a"][-1].endswith("more")


VALUES: Final = st.recursive(
    ODD | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_ideas_and_scores_of_any_shape_are_shown(fields: dict[str, Any]) -> None:
    assert PAGES.piece("idea_fields", fields)
    assert PAGES.piece("idea_fields", formatting.unfinished(fields)["idea"] or {})
    named = {"id": "v", "by": "auto", "verdict": "pass", "summary": None}
    for scores in (fields, {"reviews": [fields, fields], "meta_review": {"scores": fields}}):
        assert PAGES.piece("validation", {**named, "scores": scores})


@pytest.mark.parametrize(
    ("replication", "shown"),
    [("asked for", "replication asked for"), ("on another pod", "replicated on another pod")],
)
def test_a_verdict_that_was_replicated_or_shall_be_says_so(replication: str, shown: str) -> None:
    answer = {"id": "v", "by": "auto", "verdict": "fail", "summary": None, "scores": {}}
    for piece in ("claim", "validation"):
        expected = shown if piece == "validation" else shown.partition(" on ")[0]
        text = PAGES.piece(piece, {**answer, "replication": replication})
        assert expected in text
        assert ("pod" in text) == (piece == "validation" and "pod" in shown), "lists do not look at attempts"
        assert "replicat" not in PAGES.piece(piece, answer)


@pytest.mark.parametrize(
    ("said_of", "badge"),
    [
        ({"verdict": "pass", "conclusion": "supported"}, "v-supported"),
        ({"verdict": "fail", "conclusion": "contradicted"}, "v-contradicted"),
        ({"verdict": "fail", "conclusion": "inconclusive"}, "v-inconclusive"),
        ({"verdict": "pass"}, "v-supported"),
        ({"verdict": "fail"}, "v-refuted"),
        ({"verdict": "fail", "conclusion": "supported"}, "v-refuted"),
    ],
)
def test_a_page_says_what_was_concluded_and_asks_whether_a_person_confirms_it(
    said_of: dict[str, Any], badge: str
) -> None:
    page, *_ = pages_of(Store(lines(("ai.validation.auto_completed", said_of)), status="AWAITING_HUMAN"))
    assert "Do you confirm this verdict?" in page
    assert badge in page


class Sparse(Store):
    """A store in which a search of the log ended early, or found nothing at all."""

    stopped_at: Sequence[Any] | None = None

    async def events(self, run_id: str, **_: Any) -> Slice:
        return Slice([], self.stopped_at)


def test_a_search_that_ended_early_does_not_say_that_nothing_fits() -> None:
    store = Sparse([])
    for stopped_at, words in ((None, b"No event matches"), (("cursor",), b"searches further back")):
        store.stopped_at = stopped_at
        page = asyncio.run(log_tab(site_of(store), RUN_ID, LogFilters()))
        assert words in page.body


class Counted(Store):
    """A store that remembers which lists were asked for."""

    def __init__(self, log: Sequence[Event], *, status: str = "RUNNING") -> None:
        super().__init__(log, status=status)
        self.asked: set[str] = set()

    async def beside(self, collection: str, run_ids: Sequence[str], order: object) -> Part:
        self.asked.add(collection)
        return await super().beside(collection, run_ids, order)

    async def part(self, collection: str, query: dict[str, Any], *_: object) -> Part:
        self.asked.add(
            "nodes" if "data.node" in query or "ai.node.created" in query["type"]["$in"] else "says"
        )
        return await super().part(collection, query)

    async def usage(self, run_ids: Sequence[str]) -> list[dict[str, Any]]:
        self.asked.add("usage")
        return await super().usage(run_ids)

    async def metrics(self, run_id: str, most: int) -> list[dict[str, Any]]:
        self.asked.add("metrics")
        return await super().metrics(run_id, most)


@pytest.mark.parametrize(
    ("show", "asked"),
    [
        (lambda site: overview(site, RUN_ID), {"attempts", "stages", "usage"}),
        (lambda site: metrics_tab(site, RUN_ID, MetricsView()), {"metrics"}),
        (lambda site: files_tab(site, RUN_ID, None), {"artifacts"}),
        (lambda site: sections_tab(site, RUN_ID, "attempts"), {"attempts", "stages", "usage"}),
        (
            lambda site: sections_tab(site, RUN_ID, "validation"),
            {"attempts", "validations", "data_uses", "says"},
        ),
        (lambda site: kind_tab(site, RUN_ID, "tree"), {"nodes"}),
        (lambda site: spec_tab(site, RUN_ID), set()),
        (lambda site: log_tab(site, RUN_ID, LogFilters()), set()),
    ],
)
def test_a_tab_reads_only_what_it_shows(show: Any, asked: set[str]) -> None:
    store = Counted(
        lines(("ai.run.started", {}), ("ai.run.stage_metric", {"stage": "S", "name": "m", "value": 1.0}))
    )
    assert asyncio.run(show(site_of(store))).status_code == 200
    assert store.asked == asked


@pytest.mark.parametrize("tab", ["files", "overview", "spec", "nothing", "", "<b>"])
def test_a_tab_that_a_run_has_not_is_not_found(tab: str) -> None:
    with pytest.raises(NotFound, match="no tab"):
        asyncio.run(kind_tab(site_of(Store([])), RUN_ID, tab))


def first_tab(store: Store) -> str:
    return bytes(asyncio.run(overview(site_of(store), RUN_ID)).body).decode()


def test_the_first_tab_of_a_failed_run_says_what_failed_where_and_what_can_be_done() -> None:
    store = Store(lines(("ai.run.started", {})), status="FAILED")
    error = {"code": "OUT_OF_MEMORY", "message": "no <room> left", "stage": "train", "attempt": 1}
    store.run |= {"error": {**error, "fault": "pod"}, "claimedBy": "p/1"}
    page = first_tab(store)
    for words in ("OUT_OF_MEMORY", "no &lt;room&gt; left", "In stage <strong>train</strong>, attempt 1."):
        assert words in page
    assert formatting.FAULT_WORDS["pod"] in page
    assert formatting.NEXT_STEPS["OUT_OF_MEMORY"] in page
    assert '<a href="/pods/p/1">' in page
    assert "<button>Run again</button>" in page
    store.run["error"] = {**error, "fault": "run"}
    assert "The run's own" in first_tab(store)


def test_headline_numbers_stand_on_the_first_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Headline("<loss>", 0.5, 0.75, -0.25), Headline("name", "b", None)]
    monkeypatch.setattr("control_plane.server.web.run_pages.overview.headline", lambda *_: rows)
    store = Store([])
    assert "Change" not in first_tab(store)
    store.run |= {"parentRunId": RUN_ID[1:]}
    page = re.sub(r"<[^>]+>", " ", first_tab(store))
    assert re.search(r"&lt;loss&gt;\s+0\.5\s+0\.75\s+-0\.25", page)
    assert re.search(r"name\s+b\s+–\s+–", page)


def test_the_specification_stands_beside_that_of_the_run_before() -> None:
    store = Store([])
    store.run |= {"parentRunId": RUN_ID[1:]}
    page = bytes(asyncio.run(spec_tab(site_of(store), RUN_ID)).body).decode()
    (row,) = re.findall(r"<tbody>(.*)</tbody>", page)
    assert re.findall(r">([^<]+)<", row) == ["seed", str(len(RUN_ID)), str(len(RUN_ID) - 1)]
    assert "podfleet submit --kind experiment -p idea=x -p seed=" in page


def test_a_file_that_somebody_reads_is_not_fetched_again_when_the_run_goes_on() -> None:
    key = f"runs/{RUN_ID}/a1/plots/x.png"
    file = {"key": key, "name": "plots/x.png", "size": 1, "sha256": "0" * 64, "content_type": "image/png"}
    store = Store(lines(("ai.artifact.registered", file)))
    found = [each for name, each in store.stored if name == "artifacts"]
    site = site_of(store)

    async def named(artifact_id: str) -> dict[str, Any] | None:
        return next((each for each in found if each["_id"] == artifact_id), None)

    store.artifact = named  # type: ignore[attr-defined]
    tree = bytes(asyncio.run(files_tab(site, RUN_ID, None)).body).decode()
    assert f'data-topics="run/{RUN_ID}"' in tree
    assert re.findall(r'<a href="([^"]*)#preview">([^<]*)</a>', tree)[0][1] == "x.png"
    shown = bytes(asyncio.run(files_tab(site, RUN_ID, found[0]["_id"])).body).decode()
    assert 'data-topics="" data-since="" data-refresh="0"' in shown
    assert '<figure class="alone"><img' in shown
    with pytest.raises(NotFound):
        asyncio.run(files_tab(site, RUN_ID, "another"))
    found[0]["runId"] = "of another run"
    with pytest.raises(NotFound, match="the run has no file"):
        asyncio.run(files_tab(site, RUN_ID, found[0]["_id"]))
