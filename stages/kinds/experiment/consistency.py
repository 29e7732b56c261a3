"""Checks that the fields of a checkpoint's state fit together, and fit this run, pure.

Types and bounds were checked before; this module checks what only several fields together show. Each
function returns why a state is not used, for the run's log; None where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from events.kinds.space.metrics import is_possible
from stages.kinds.experiment.record.ledger import ClaimState, PaperState, SearchState, UnitsState
from stages.kinds.experiment.record.record import StageRecord
from stages.kinds.experiment.statistics.validation import Registration
from stages.kinds.experiment.tree import Node

PAPER_BYTES_MAX: Final = 256 << 20  # a file of it is copied, and read in part
OTHER_ROWS: Final = "it was measured by another secret of the judge"  # so on other rows


@dataclass(frozen=True, slots=True)
class Course:
    """What a stage of the search can be in this run: where it starts, how far it goes, and what ranks it.

    `root` is the node that it starts from, `limit` the most nodes that it tries, `width` those of a round,
    `metric` the score that ranks, `judge` the mark of the secret by which this run measures, and `seeds` the
    seeds from which a finalist is run again, by its id.
    """

    stage: str
    root: Node | None
    limit: int
    width: int
    metric: str
    judge: str
    seeds: Callable[[str], tuple[int, ...]]


def finished_problem(state: SearchState, course: Course, claim: ClaimState) -> str | None:
    """Judge a finished stage of the search."""
    if state.record is None:
        return "it is finished without a record"
    if state.claim is None or _anywhere(state.claim) != _anywhere(claim):
        return "it was made for another claim"
    return begun_problem(state, course) or _record_problem(state.record, course)


def _anywhere(claim: ClaimState) -> ClaimState:
    """Return a claim without the path of its data, which each pod has elsewhere; the digest identifies them."""
    return replace(claim, data=replace(claim.data, location=""))


def begun_problem(state: SearchState, course: Course) -> str | None:
    """Judge what a stage of the search has tried so far."""
    if state.judge != course.judge:
        return OTHER_ROWS
    tried = [each.node for each in state.tried]
    problem = _tree_problem(tried, course) or _tree_problem(state.begun, course)
    if problem is not None:
        return problem
    if len(state.begun) > course.width:
        return f"{len(state.begun)} nodes are begun at once, and a round has {course.width}"
    if known := [node for node in state.begun if node.metric is not None or node.error or node.scores]:
        return f"{known[0].id} is begun, and has a result already"
    names = {node.id for node in (*tried, *state.begun)}
    if len(names) > course.limit:
        return f"it has more than the {course.limit} nodes of this stage"
    return _gap_in(names)


def _gap_in(names: Collection[str]) -> str | None:
    """Nodes are numbered from 1, and the next one gets the next number."""
    numbers = sorted(int(name.partition("/")[2]) for name in names)
    return None if numbers == list(range(1, len(numbers) + 1)) else "the numbers of its nodes have a gap"


def _record_problem(record: StageRecord, course: Course) -> str | None:
    if record.name != course.stage:
        return f"it is of {record.name}"
    if record.limit != course.limit or len(record.nodes) > course.limit:
        return f"it has other nodes than the {course.limit} of this stage"
    known = {node.id: node for node in record.nodes}
    if course.root is not None:
        known[course.root.id] = course.root
    problem = _tree_problem(record.nodes, course) or _gap_in({each.id for each in record.nodes})
    if problem is not None:
        return problem
    if known.get(record.best.id) != record.best or record.best.buggy:
        return f"{record.best.id} was chosen, and is none of its good nodes"
    curves = {record.best.id, *known}
    named = [each.node for each in record.finalists]
    named += [each.node for each in (*record.curves, record.curve)]
    if unknown := set(named) - curves:
        return f"{min(unknown)} is none of its nodes"
    for finalist in record.finalists:
        if len(finalist.seeds) != len(finalist.values):
            return f"{finalist.node} has {len(finalist.values)} values from {len(finalist.seeds)} seeds"
        values = [(course.metric, value) for value in (*finalist.values, finalist.mean)]
        if (wrong := _impossible(values)) is not None:
            return f"{finalist.node}: {wrong}"
        # Others would choose those of the validation, which avoids what was used.
        if finalist.seeds != course.seeds(finalist.node):
            return f"{finalist.node} was run again from other seeds than this run's"
    names = [each.node for each in record.finalists]
    return "a finalist stands twice" if len(set(names)) != len(names) else None


def _tree_problem(nodes: Sequence[Node], course: Course) -> str | None:
    """Judge nodes that stand in the order of their numbers or of their results."""
    stage, root, metric = course.stage, course.root, course.metric
    known: set[str] = set()
    for node in nodes:
        if node.stage != stage or not node.id.startswith(f"{stage}/"):
            return f"{node.id} is of another stage"
        if node.id in known:
            return f"{node.id} stands twice"
        known.add(node.id)
        if node.parent is not None and not _is_older(node.parent, node, root):
            return f"{node.id} was made from {node.parent}, which is no older"
        if (wrong := _impossible(node.scores.items())) is not None:
            return f"{node.id}: {wrong}"
        if node.metric != node.scores.get(metric):
            return f"{node.id} has another {metric} than its scores say"
    return None


def _is_older(parent: str, node: Node, root: Node | None) -> bool:
    if root is not None and parent == root.id:
        return True
    stage, _, number = parent.partition("/")
    return stage == node.stage and int(number) < int(node.id.partition("/")[2])


def _impossible(named: Iterable[tuple[str, float]]) -> str | None:
    """Return what no measurement gives, of measures and their values."""
    wrong = next(((name, value) for name, value in named if not is_possible(name, value)), None)
    return None if wrong is None else f"the {wrong[0]} cannot be {wrong[1]:g}"


def units_problem(
    state: UnitsState, arms: tuple[str, str], judge: str, plan: Registration, measured: Collection[str]
) -> str | None:
    """Judge what was measured in units for the programs `arms`: of each result the scores `measured`."""
    if state.judge != judge:
        return OTHER_ROWS
    if state.arms != arms:
        return "it is of other programs"
    if (state.rows, state.test_rows) != (plan.rows, plan.test_rows):
        return "its units are of other sizes"
    pairs = [(each.arm, each.seed) for each in state.measured]
    readings = [each.reading for each in state.measured if each.reading.scores is not None]
    told = [(name, value) for each in readings for name, value in (each.scores or {}).items()]
    if (wrong := _impossible(told)) is not None:
        return wrong
    missing = [name for name in measured if any(name not in (each.scores or {}) for each in readings)]
    if missing:
        return f"a result lacks the {min(missing)}"
    if any(each.reading.scores is not None and not each.answers for each in state.measured):
        return "a result lacks the digest of its answers"
    return "a seed stands twice" if len(set(pairs)) != len(pairs) else None


def paper_problem(state: PaperState, sizes: Mapping[str, int]) -> str | None:
    """Judge a paper by its files and their sizes."""
    if missing := [name for name in state.files if name not in sizes]:
        return f"{missing[0]} is not among its files"
    if sum(sizes[name] for name in state.files) > PAPER_BYTES_MAX:
        return f"it has more bytes than a paper has, {PAPER_BYTES_MAX}"
    lacks = {"paper.pdf", "paper.tex"} - set(state.files)
    return f"it lacks {min(lacks)}" if lacks else None
