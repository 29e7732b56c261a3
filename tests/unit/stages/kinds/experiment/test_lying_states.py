"""A checkpoint's state may say anything: what is accepted of it fits the run, and breaks nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.files.paths import SafeName
from events.kinds.space.data_sets import SHIPPED
from stages.bounds import Unreadable, read_state
from stages.kinds.experiment.consistency import (
    OTHER_ROWS,
    Course,
    begun_problem,
    finished_problem,
    paper_problem,
    units_problem,
)
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.plots.search_tree import layout
from stages.kinds.experiment.record.ledger import (
    EffectState,
    Measured,
    PaperState,
    ReviewState,
    SearchState,
    Tried,
    UnitsState,
    state_of,
)
from stages.kinds.experiment.record.numbers import facts_to_say, numbers_of
from stages.kinds.experiment.record.record import Record, as_results
from stages.kinds.experiment.research.researcher_factory import claim_of, state_of_claim
from stages.kinds.experiment.statistics.validation import Reading
from stages.kinds.experiment.testing import make_record
from stages.models.budget import Spent

RECORD = make_record(works=2, buggy_share=0.3)
CLAIM = state_of_claim(RECORD.claim)
METRIC = RECORD.claim.selection.name
MEASURE = RECORD.claim.metric
MARK = Secret("of these tests").mark
ARMS = ("a", "b")


def _fitted(record: Record) -> Record:
    """Return a record as the search makes them: a node's metric is one of its scores."""
    stages = []
    for stage in record.stages:
        nodes = tuple(
            replace(node, scores={METRIC: node.metric} if node.metric is not None else {})
            for node in stage.nodes
        )
        known = {node.id: node for each in stages for node in each.nodes} | {node.id: node for node in nodes}
        stages.append(replace(stage, nodes=nodes, limit=len(nodes), best=known[stage.best.id]))
    return replace(record, stages=tuple(stages))


HONEST = _fitted(RECORD)


def plain(found: Any) -> Any:
    return json.loads(json.dumps(state_of(found, is_complete=True)["found"]))


def search_state(number: int) -> Any:
    record = HONEST.stages[number]
    tried = tuple(Tried(node, None, 1) for node in record.nodes)
    return plain(SearchState(tried, (), record, CLAIM, None, MARK))


def root_of(number: int) -> Any:
    return HONEST.stages[number - 1].best if number else None


def course(number: int, **changes: Any) -> Course:
    """Return what the honest record's stage can be, with changes."""
    stage = HONEST.stages[number]
    again = {each.node: each.seeds for each in stage.finalists}
    fields = {
        "stage": stage.name, "root": root_of(number), "limit": stage.limit, "width": 4, "metric": METRIC,
        "judge": MARK, "seeds": lambda node: again.get(node, (0,)),
    }  # fmt: skip
    return Course(**{**fields, **changes})


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where each value of a state stands."""
    found = [at] if at else []
    if isinstance(value, dict):
        return found + [each for name, inner in value.items() for each in places(inner, (*at, name))]
    if isinstance(value, list):
        return found + [each for place, inner in enumerate(value) for each in places(inner, (*at, place))]
    return found


LIES: list[Any] = [
    None, True, 0, -1, 1, 3, 2**31, 2**63, 10**30, 1e99, 1e159, -1e300, "", "x", "..", "../../x",
    "/etc/passwd", "a/../../x", "Stage_1/1", "Stage_2/1", "Stage_3/2", "Stage_9/1", "Stage_1/../../x",
    "Stage_1/1\n", "Stage_1", "root", "\x00", "{effect.mean}", "javascript:alert(1)", "W" * 20_000,
    [], {}, [[]], {"a b": 1, "a_b": 2},
]  # fmt: skip


@st.composite
def lies(draw: st.DrawFn, honest: Any) -> Any:
    """Draw an honest state in which one to four values are others, missing, or there twice."""
    state = copy.deepcopy(honest)
    for _ in range(draw(st.integers(1, 4))):
        spots = places(state)
        if not spots:
            break
        *way, last = draw(st.sampled_from(spots))
        holder = state
        for step in way:
            holder = holder[step]
        match draw(st.sampled_from(["put", "put", "swap", "drop", "double"])):
            case "put":
                holder[last] = copy.deepcopy(draw(st.sampled_from(LIES)))
            case "swap":
                other = state
                for step in draw(st.sampled_from(spots)):
                    if not isinstance(other, dict | list):
                        break
                    try:
                        other = other[step]
                    except (KeyError, IndexError, TypeError):
                        break
                holder[last] = copy.deepcopy(other)
            case "drop":
                del holder[last]
            case "double" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[last]))
    return state


quick = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_an_honest_state_is_accepted(number: int) -> None:
    state = read_state(search_state(number), SearchState)
    assert finished_problem(state, course(number), CLAIM) is None
    assert state.record == HONEST.stages[number]


@quick
@given(state=lies(search_state(1)))
def test_a_stage_that_is_accepted_breaks_nothing_behind_it(state: Any) -> None:
    try:
        read = read_state(state, SearchState)
    except Unreadable:
        return
    if finished_problem(read, course(1), CLAIM) is not None or read.record is None:
        return
    first, _, third, fourth = HONEST.stages
    record = replace(HONEST, stages=(first, read.record, third, fourth))
    assert layout(read.record.nodes).keys() == {node.id for node in read.record.nodes}
    for finalist in read.record.finalists:
        assert len(list(zip(finalist.seeds, finalist.values, strict=True))) > 0
    numbers_of(record)
    msgspec.json.encode(facts_to_say(record))
    json.dumps(as_results(record), allow_nan=False)
    assert all(node.id.startswith("Stage_2/") and ".." not in node.id for node in read.record.nodes)


BEGUN = SearchState(
    tuple(Tried(node, None, 1) for node in HONEST.stages[0].nodes[:2]), (), None, CLAIM, None, MARK
)


@quick
@given(state=lies(plain(BEGUN)))
def test_a_stage_that_was_begun_can_be_gone_on_with(state: Any) -> None:
    try:
        read = read_state(state, SearchState)
    except Unreadable:
        return
    if begun_problem(read, course(0)) is not None:
        return
    names = [each.node.id for each in read.tried]
    assert len(set(names)) == len(names)
    next_one = f"Stage_1/{len(set(names) | {node.id for node in read.begun}) + 1}"
    assert next_one not in names


def _node(number: int, **changes: Any) -> Callable[[Any], None]:
    """Return a lie about a node, wherever a state tells of it."""

    def tell(state: Any) -> None:
        for node in (state["record"]["nodes"][number], state["tried"][number]["node"]):
            node.update(changes)

    return tell


def _record(**changes: Any) -> Callable[[Any], None]:
    return lambda state: state["record"].update(changes)


def _begin(**changes: Any) -> Callable[[Any], None]:
    """Return the lie that a node is begun which is not as a new one is."""

    def tell(state: Any) -> None:
        count = len(state["tried"])
        fresh = {**state["tried"][0]["node"], "metric": None, "scores": {}, "error": None, "parent": None}
        state["begun"] = [{**fresh, "id": f"Stage_2/{count + 1}", **changes}]

    return tell


def _finalist(**changes: Any) -> Callable[[Any], None]:
    return lambda state: state["record"]["finalists"][0].update(changes)


def _choose_seeds(state: Any) -> None:
    """Let a finalist have as many seeds, and others: the validation takes none of them."""
    for finalist in state["record"]["finalists"]:
        finalist["seeds"] = [seed + 1 for seed in finalist["seeds"]]


def _sow(state: Any, count: int, *, tried: bool = True, begun: bool = False) -> None:
    """Add nodes that are buggy, or begun."""
    first = len(state["tried"]) + 1
    bare = {**state["tried"][0]["node"], "metric": None, "scores": {}, "error": None, "parent": None}
    nodes = [{**bare, "id": f"Stage_2/{number}"} for number in range(first, first + count)]
    if begun:
        state["begun"] = nodes
        return
    state["record"]["nodes"] += nodes
    state["tried"] += [{"node": each, "curve": None, "attempt": 1} for each in nodes] if tried else []


def _in_record(number: int, **changes: Any) -> Callable[[Any], None]:
    """Return a lie about a node in the record alone."""
    return lambda state: state["record"]["nodes"][number].update(changes)


def _choose_buggy(state: Any) -> None:
    _node(4, metric=None, scores={}, error="no reason")(state)
    state["record"]["best"] = copy.deepcopy(state["record"]["nodes"][4])


OF_ANOTHER = {"node": "Stage_2/99", "points": []}
SEARCH_LIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no record": (lambda state: state.update(record=None), "without a record"),
    "another claim": (lambda state: state["claim"].update(subject="luck"), "another claim"),
    "no claim": (lambda state: state.update(claim=None), "another claim"),
    "another stage's record": (_record(name="Stage_3"), "it is of Stage_3"),
    "a node of another stage": (_node(1, id="Stage_3/2"), "another stage"),
    "a node twice": (_node(1, id="Stage_2/1"), "stands twice"),
    "a gap": (_node(4, id="Stage_2/9"), "gap"),
    "a parent of its own": (_node(1, parent="Stage_2/2"), "no older"),
    "a parent that is younger": (_node(1, parent="Stage_2/4"), "no older"),
    "a parent of nowhere": (_node(1, parent="Stage_1/77"), "no older"),
    "a metric of its own": (_node(0, metric=0.99), "than its scores say"),
    "a node that says another stage": (_node(1, stage="Stage_3"), "another stage"),
    "a gap in what was tried": (lambda state: state["tried"][4]["node"].update(id="Stage_2/9"), "gap"),
    "a gap in the record": (lambda state: state["record"]["nodes"][4].update(id="Stage_2/9"), "gap"),
    "a younger parent in the record": (_in_record(1, parent="Stage_2/4"), "no older"),
    "a choice that is buggy": (lambda state: _choose_buggy(state), "none of its good nodes"),
    "a begun node of another stage": (lambda state: _begin(id="Stage_3/6")(state), "another stage"),
    "values that nothing has": (
        _finalist(values=[7.0] * len(HONEST.stages[1].finalists[0].seeds)),
        "cannot be 7",
    ),
    "a score whose name is none": (_node(0, scores={"a b": 1.0}, metric=None), "regex"),
    "a loss that no sum takes": (
        _record(curve={"node": "Stage_2/1", "points": [{"epoch": 1, "train_loss": 1e200, "watch_loss": 0}]}),
        "<= 1e+151",
    ),
    "a path for an id": (_node(0, id="../../x"), "regex"),
    "a line's end in an id": (_node(0, id="Stage_2/1\n"), "regex"),
    "a choice of nowhere": (lambda state: state["record"]["best"].update(plan="another"), "none of its"),
    "a curve of nowhere": (_record(curve=OF_ANOTHER), "none of its nodes"),
    "a finalist of nowhere": (_finalist(node="Stage_2/99"), "none of its nodes"),
    "a finalist without seeds": (_finalist(seeds=[]), "length >= 1"),
    "more seeds than values": (_finalist(seeds=[1, 2, 3, 4, 5]), "values from 5 seeds"),
    "a finalist twice": (_finalist(node=HONEST.stages[1].finalists[1].node), "a finalist stands twice"),
    "an accuracy that nothing has": (_node(0, metric=1e151, scores={METRIC: 1e151}), "cannot be 1e+151"),
    "a score below zero": (_node(0, scores={METRIC: 0.5, "nll": -1.0}, metric=0.5), "nll cannot be -1"),
    "a mean that nothing has": (_finalist(mean=7.0), "cannot be 7"),
    "more seeds than this run's": (_finalist(seeds=[1] * 900, values=[0.5] * 900), "other seeds than this"),
    "seeds of its own choice": (lambda state: _choose_seeds(state), "other seeds than this run's"),
    "more nodes than the stage has": (lambda state: _sow(state, 1), "more than the 5 nodes"),
    "a record of more nodes": (lambda state: _sow(state, 1, tried=False), "other nodes than the 5"),
    "another limit": (_record(limit=10**9), "other nodes than the 5"),
    "more nodes begun than a round has": (
        lambda state: _sow(state, 5, begun=True),
        "5 nodes are begun at once",
    ),
    "begun with a result": (_begin(metric=0.5, scores={METRIC: 0.5}), "has a result already"),
    "begun with an error": (_begin(error="x"), "has a result already"),
    "a number without end": (_node(0, seconds=1e300), "Expected `float` <= 1000000000000000.0"),
    "a text without end": (_node(0, code="x" * 100_001), "length <= 100000"),
}


@pytest.mark.parametrize("lie", SEARCH_LIES)
def test_a_stage_that_lies_is_refused_in_words(lie: str) -> None:
    tell, words = SEARCH_LIES[lie]
    state = search_state(1)
    tell(state)
    try:
        read = read_state(state, SearchState)
        said = finished_problem(read, course(1), CLAIM)
    except Unreadable as error:
        said = str(error)
    assert words in (said or "")


def test_a_node_that_is_begun_and_new_is_accepted() -> None:
    state = search_state(1)
    _begin()(state)
    assert begun_problem(read_state(state, SearchState), course(1, limit=6)) is None


PLAN = HONEST.verdicts.judgement.plan
QUALITIES = frozenset({METRIC})


def units(*measured: Measured, mark: str = MARK) -> UnitsState:
    return UnitsState(ARMS, PLAN.rows, PLAN.test_rows, measured, mark)


def units_said(state: UnitsState, arms: tuple[str, str] = ARMS) -> str | None:
    return units_problem(state, arms, MARK, PLAN, QUALITIES)


def test_a_unit_that_was_measured_twice_is_refused() -> None:
    none, good = Reading(None), Reading({METRIC: 1.0})
    assert units_said(units(Measured(0, 3, none), Measured(0, 3, none))) == "a seed stands twice"
    once = units(Measured(0, 3, none), Measured(1, 3, good, "digest"))
    assert units_said(once) is None
    assert units_said(once, ("a", "c")) == "it is of other programs"
    assert units_said(replace(once, test_rows=1)) == "its units are of other sizes"
    assert units_said(units(Measured(1, 3, good))) == "a result lacks the digest of its answers"
    assert units_said(units(Measured(0, 3, Reading({"nll": 1.0})))) == f"a result lacks the {METRIC}"


@pytest.mark.parametrize("mark", ["", Secret("of another run").mark])
def test_what_was_measured_by_another_secret_is_refused(mark: str) -> None:
    finished = replace(read_state(search_state(1), SearchState), judge=mark)
    assert finished_problem(finished, course(1), CLAIM) == OTHER_ROWS
    assert begun_problem(replace(BEGUN, judge=mark), course(0)) == OTHER_ROWS
    assert units_said(units(mark=mark)) == OTHER_ROWS


@pytest.mark.parametrize("reading", [Reading({METRIC: 1.5}), Reading({METRIC: 1.0, "brier": -1.0})])
def test_what_no_measurement_gives_is_refused(reading: Reading) -> None:
    assert "cannot be" in (units_said(units(Measured(0, 3, reading))) or "")


PAPER = PaperState(
    "Title", "author", "text", 3, "everything", HONEST.setting, HONEST.works,
    (SafeName("paper.pdf"), SafeName("paper.tex")),
)  # fmt: skip


def test_a_paper_that_is_not_whole_is_refused_in_words() -> None:
    assert paper_problem(PAPER, {"paper.pdf": 1, "paper.tex": 1}) is None
    assert "is not among" in (paper_problem(PAPER, {"paper.pdf": 1}) or "")
    bare = replace(PAPER, files=(SafeName("paper.pdf"),))
    assert paper_problem(bare, {"paper.pdf": 1}) == "it lacks paper.tex"


@quick
@given(state=lies(plain(PAPER)))
def test_a_paper_that_is_accepted_has_its_files_and_breaks_no_number(state: Any) -> None:
    try:
        read = read_state(state, PaperState)
    except Unreadable:
        return
    if paper_problem(read, {"paper.pdf": 1, "paper.tex": 1, "numbers.json": 1}) is not None:
        return
    assert {"paper.pdf", "paper.tex"} <= set(read.files) <= {"paper.pdf", "paper.tex", "numbers.json"}
    record = replace(HONEST, setting=read.setting, works=read.works)
    numbers_of(record)
    msgspec.json.encode(facts_to_say(record))
    assert all(work.url == "" or work.url.lower().startswith("http") for work in read.works)


@quick
@given(
    fresh=lies(
        {
            "arms": ["a", "b"],
            "rows": 150,
            "test_rows": 45,
            "measured": [{"arm": 0, "seed": 3, "reading": {"scores": {"accuracy": 0.5}, "naive": 0.4}}],
        }
    ),
    review=lies({"traced": 3, "untraced": ["x"], "reviews": []}),
    spent=lies(Spent(tokens=5, model_usd=0.1).state()),
)
def test_other_states_are_read_in_bounds_or_not_at_all(fresh: Any, review: Any, spent: Any) -> None:
    for state, kind in ((fresh, UnitsState), (review, ReviewState), (spent, Spent)):
        try:
            read = read_state(state, kind)
        except Unreadable:
            continue
        json.dumps(msgspec.to_builtins(read), allow_nan=False)
        if isinstance(read, Spent):
            assert 0 <= read.cost_usd <= 2e15


@pytest.mark.parametrize(
    "change",
    [
        {"effects": (EffectState("none", "increase"),)}, {"effects": (EffectState("rmse", "increase"),)},
        {"effects": (EffectState("accuracy", "increase", "equivalent"),)},
        {"train_examples": 0}, {"train_examples": 10**8},
        {"data": replace(CLAIM.data, location="/etc/passwd", digest="x")},
        {"data": replace(CLAIM.data, name="own")},
    ],
)  # fmt: skip
def test_a_claim_that_this_run_cannot_have_is_none(change: dict[str, Any]) -> None:
    assert claim_of(CLAIM, None) == RECORD.claim
    assert claim_of(replace(CLAIM, **change), None) is None


def test_the_data_of_a_claim_are_the_pods_own() -> None:
    foreign = replace(CLAIM, data=replace(CLAIM.data, location="/another/place.csv"))
    own = claim_of(foreign, None)
    assert own is not None
    assert own.data == SHIPPED[CLAIM.data.name]
