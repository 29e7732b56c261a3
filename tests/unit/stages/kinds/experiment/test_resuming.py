"""An experiment that goes on from a checkpoint: nothing is done twice, and everything comes out the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from events import catalog as c
from events.kinds import read_spec
from events.kinds.experiment import STAGES, NodeCompleted, NodeExecuting, NodeRestored, PaperGenerated
from stages.kinds.experiment import pipeline
from stages.kinds.experiment.consistency import OTHER_ROWS
from stages.kinds.experiment.paper.renderer import find_renderer
from stages.kinds.experiment.steps.searching import Searching
from stages.kinds.experiment.steps.validating import Validating
from stages.pipeline import run_pipeline
from stages.ports import Tools
from stages.ports.checkpoints import Restored
from stages.testing import MemoryCheckpoints, RecordingReporter, make_context

pytestmark = [
    pytest.mark.slow("whoever is first makes a whole experiment for all"),
    pytest.mark.usefixtures("small_pictures", "short_trainings", "small_papers"),
]
SPEC = {
    "idea": "Dropout improves accuracy on iris",
    "preset": "quick",
    "nodes": {"Stage_1": 2, "Stage_2": 2, "Stage_4": 2},
}
ORDER = STAGES
STAGES_OF_SEARCH = ORDER[:4]


MARK = b"MARK OF THE LIAR"
UNFORESEEN = KeyError("nobody thought of that")


class Dead(BaseException):
    """The end of a process, as far as there can be one here."""


@dataclass
class Diary(MemoryCheckpoints):
    """Remembers what was kept after each checkpoint, and what had been announced before it.

    The attempt dies after its first checkpoint of the stage `last`.
    """

    reporter: RecordingReporter = field(default_factory=RecordingReporter)
    pages: list[tuple[str, dict[str, Restored], int]] = field(default_factory=list)
    last: str = ""

    def keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
        # not `super()`: a dataclass with slots is another class than the one that was written
        problem = MemoryCheckpoints.keep(self, name, state, files)
        self.pages.append((name, dict(self.kept), len(self.reporter.facts)))
        if name == self.last:
            raise Dead
        return problem


def attempt(folder: Path, tools: Tools, checkpoints: MemoryCheckpoints, reporter: RecordingReporter) -> None:
    spec = read_spec("experiment", SPEC)
    context = make_context(
        spec, folder, reporter=reporter, checkpoints=checkpoints, tools=tools, attempt=checkpoints.attempt
    )
    run_pipeline(pipeline.run, context)


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
    tools: Tools,
    small_pictures: None,
    short_trainings: None,
    small_papers: None,
) -> Diary:
    """An experiment that nobody disturbed, with its diary."""
    diary = Diary()
    attempt(tmp_path_factory.mktemp("whole"), tools, diary, diary.reporter)
    assert isinstance(diary.reporter.facts[-1], c.RunCompleted), diary.reporter.facts[-1]
    return diary


@contextmanager
def setting_papers(is_wanted: bool) -> Iterator[None]:
    """Let papers be set where figures of an earlier attempt go into them; elsewhere they are small."""
    with pytest.MonkeyPatch.context() as patch:
        if is_wanted:
            patch.setattr(pipeline, "find_renderer", find_renderer)
        yield


def results(*reporters: RecordingReporter) -> dict[str, Any]:
    """Return the numbers of a run, without what may differ: times, and who did it."""
    (path,) = [kept.path for each in reporters for kept in each.files if kept.name.endswith("results.json")]
    found: dict[str, Any] = json.loads(path.read_text())
    del found["setting"]["attempt"]
    return _timeless(found)


def verdict(reporter: RecordingReporter) -> Any:
    """Return the verdict of a run; seconds differ."""
    (said,) = reporter.of(c.ValidationAutoCompleted)
    return said.verdict, said.summary, said.scores["differences"], said.scores["numbers_untraced"]


def _tried(kept: Restored) -> Any:
    return kept.state["found"]["tried"]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(each) for name, each in value.items() if "seconds" not in name}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


# after the first checkpoint inside a stage, and after its last one
@pytest.mark.parametrize(
    ("stage", "where"),
    [
        pytest.param("Stage_1", "first", marks=pytest.mark.long("a stage that was begun: Stage_3")),
        ("Stage_3", "first"),
        ("validation", "first"),
        ("Stage_2", "last"),
        ("validation", "last"),
        ("plots", "last"),
        ("paper", "last"),
        ("review", "last"),
    ],
)
def test_a_resumed_experiment_does_nothing_twice_and_ends_the_same(
    whole: Diary, tools: Tools, tmp_path: Path, stage: str, where: str
) -> None:
    numbers = [number for number, (name, _, _) in enumerate(whole.pages) if name == stage]
    _, kept, said = whole.pages[numbers[0 if where == "first" else -1]]
    second = MemoryCheckpoints(attempt=2, found=kept)
    reporter = RecordingReporter()
    with setting_papers(is_wanted=stage == "plots"):
        attempt(tmp_path, tools, second, reporter)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]

    before = RecordingReporter(whole.reporter.facts[:said])
    tried = {each.node for each in before.of(NodeCompleted)}
    tried |= {each["node"]["id"] for name in kept if name in STAGES_OF_SEARCH for each in _tried(kept[name])}
    assert tried
    assert not tried & {each.node for each in reporter.of(NodeExecuting)}
    done = {each.stage for each in before.of(c.StageCompleted)}
    assert not done & {each.stage for each in reporter.of(c.StageStarted)}
    if (stage, where) == ("validation", "first"):
        begun = next(each for each in reporter.of(c.StageProgress) if each.stage == stage)
        assert begun.progress > 0, "what fresh seeds measured is not measured again"
    restored = {each.node: each.from_attempt for each in reporter.of(NodeRestored)}
    assert set(restored.values()) <= {1}
    told = [each.message for each in reporter.of(c.RunLog)]
    assert sum("resuming after it" in each for each in told) == len(
        {name for name in ORDER if name in kept and kept[name].state["is_complete"]}
    )
    if "paper" in kept:
        assert not [each.name for each in reporter.files if each.name.startswith("paper/")]
    else:
        assert results(reporter) == results(whole.reporter)
    assert len(reporter.of(PaperGenerated)) == 1, "said by each attempt that has a paper"
    assert verdict(reporter) == verdict(whole.reporter)
    assert reporter.facts[-1] == whole.reporter.facts[-1], "the summary states the same verdict"


def test_a_third_attempt_knows_who_tried_which_node(whole: Diary, tools: Tools, tmp_path: Path) -> None:
    _, kept, _ = next(page for page in whole.pages if page[0] == "Stage_3")
    diary = Diary(attempt=2, found=kept, last="Stage_3")
    with pytest.raises(Dead):
        attempt(tmp_path / "second", tools, diary, diary.reporter)
    _, kept_by_both, _ = next(page for page in diary.pages if page[0] == "Stage_3")
    reporter = RecordingReporter()
    third = MemoryCheckpoints(attempt=3, found={**kept, "Stage_3": kept_by_both["Stage_3"]})
    attempt(tmp_path / "third", tools, third, reporter)
    by = {each.node: each.from_attempt for each in reporter.of(NodeRestored)}
    assert by == {} or set(by.values()) <= {1, 2}
    assert results(reporter) == results(whole.reporter)


def test_a_finished_stage_behind_a_gap_is_searched_again(whole: Diary, tools: Tools, tmp_path: Path) -> None:
    kept = {name: each for name, each in whole.kept.items() if name != "Stage_2"}
    reporter = RecordingReporter()
    attempt(tmp_path, tools, MemoryCheckpoints(attempt=2, found=kept), reporter)
    started = [each.stage for each in reporter.of(c.StageStarted)]
    assert started == list(ORDER[1:])
    assert {each.node for each in reporter.of(NodeExecuting)} <= {"Stage_2/1", "Stage_2/2"}
    assert results(reporter) == results(whole.reporter)


def test_a_run_that_repeats_a_part_keeps_the_figures_and_the_paper_that_it_took_over(
    whole: Diary, tools: Tools, tmp_path: Path
) -> None:
    other = "01K00000000000000000000009"
    kept = {name: replace(whole.kept[name], from_run=other) for name in ORDER[:-1]}
    reporter = RecordingReporter()
    attempt(tmp_path, tools, MemoryCheckpoints(found=kept), reporter)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    assert [each.stage for each in reporter.of(c.StageStarted)] == ["review"]
    assert not reporter.of(NodeExecuting)
    names = {each.name for each in reporter.files}
    drawn = {each.name for each in whole.reporter.files if not each.name.startswith("plots/nodes/")}
    assert names == drawn
    assert len(reporter.of(PaperGenerated)) == 1
    assert results(reporter) == results(whole.reporter)
    assert verdict(reporter) == verdict(whole.reporter)
    told = [each.message for each in reporter.of(c.RunLog)]
    assert f"paper is finished: resuming after it, from the checkpoint of attempt 1 of run {other}" in told


def test_a_checkpoint_that_cannot_be_read_is_told_and_not_used(
    whole: Diary, tools: Tools, tmp_path: Path
) -> None:
    kept = {**whole.kept, "Stage_1": Restored(1, {"is_complete": True, "found": {"tried": "nonsense"}})}
    reporter = RecordingReporter()
    attempt(tmp_path, tools, MemoryCheckpoints(attempt=2, found=kept), reporter)
    assert any("cannot be read" in each.message for each in reporter.of(c.RunLog))
    assert {each.stage for each in reporter.of(c.StageStarted)} == set(ORDER)
    assert results(reporter) == results(whole.reporter)


@pytest.mark.parametrize("left", ["no secret", "another secret"])
def test_what_was_measured_by_another_secret_is_measured_again(
    whole: Diary, tools: Tools, tmp_path: Path, left: str
) -> None:
    """Whoever takes the secret away, or puts another in its place, gets nothing for it but new rows."""
    swapped = {"judge": Restored(2, {"secret": "a" * 64}, {})} if left == "another secret" else {}
    diary = Diary(attempt=3, found={**whole.kept, **swapped}, last="Stage_1")
    with pytest.raises(Dead):
        attempt(tmp_path, replace(tools, judge_secret=""), diary, diary.reporter)
    assert diary.reporter.of(NodeExecuting)
    assert not diary.reporter.of(NodeRestored)
    told = [each.message for each in diary.reporter.of(c.RunLog)]
    assert any(OTHER_ROWS in each for each in told)
    assert any("the secret that attempt 2 left" in each for each in told) == bool(swapped)


def _other_figures(kept: dict[str, Restored], folder: Path) -> None:
    """Leave figures that show something else, as an earlier version kept them."""
    picture = folder / "comparison.pdf"
    picture.write_bytes(b"%PDF-1.4 " + MARK)
    told = [{"name": "comparison", "images": [picture.name], "table": "comparison.csv", "caption": str(MARK)}]
    state = {"is_complete": True, "found": told}
    kept["plots"] = replace(kept["plots"], state=state, files={picture.name: picture})
    del kept["paper"]


def _no_text(kept: dict[str, Restored], folder: Path) -> None:
    """Let the paper's source be bytes without end, and no text."""
    source = folder / "paper.tex"
    source.write_bytes(b"\\begin{verbatim}\xff\\val{x}{9}" * 40_000)
    kept["paper"] = replace(kept["paper"], files={**kept["paper"].files, "paper.tex": source})
    del kept["review"]


def _without_pdf(kept: dict[str, Restored], folder: Path) -> None:
    files = {name: path for name, path in kept["paper"].files.items() if name != "paper.pdf"}
    kept["paper"] = replace(kept["paper"], files=files)


def _no_pdf(kept: dict[str, Restored], folder: Path) -> None:
    page = folder / "paper.pdf"
    page.write_bytes(b"<html>" + MARK)
    kept["paper"] = replace(kept["paper"], files={**kept["paper"].files, "paper.pdf": page})


def _huge_paper(kept: dict[str, Restored], folder: Path) -> None:
    """Let the paper be a file with a hole that is as large as a disk."""
    page = folder / "paper.pdf"
    with page.open("wb") as file:
        file.truncate(1 << 40)
    kept["paper"] = replace(kept["paper"], files={**kept["paper"].files, "paper.pdf": page})


def _odd_spending(kept: dict[str, Restored], folder: Path) -> None:
    kept["spending"] = Restored(1, {"tokens": -5, "everything": 1})


LIES: dict[str, tuple[Callable[[dict[str, Restored], Path], None], set[str], str]] = {
    "figures that show something else": (_other_figures, {"paper", "review"}, "plots is finished"),
    "a source that is no text": (_no_text, {"review"}, "which was not measured"),
    "a paper without its PDF": (_without_pdf, {"paper", "review"}, "is not among its files"),
    "a paper that is no PDF": (_no_pdf, {"paper", "review"}, "paper.pdf is no PDF"),
    "a paper that fills the disk": (_huge_paper, {"paper", "review"}, "more bytes than a paper has"),
    "spending below nothing": (_odd_spending, set(), "counts as nothing"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_checkpoint_that_lies_is_told_and_begun_anew_and_nothing_is_written_outside(
    whole: Diary, tools: Tools, tmp_path: Path, lie: str
) -> None:
    tell, anew, words = LIES[lie]
    left, workspace = tmp_path / "left", tmp_path / "deep" / "er" / "workspace"
    left.mkdir()
    kept = dict(whole.kept)
    tell(kept, left)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    reporter = RecordingReporter()
    attempt(workspace, tools, MemoryCheckpoints(attempt=2, found=kept), reporter)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    assert {each.stage for each in reporter.of(c.StageStarted)} == anew
    assert any(words in each.message for each in reporter.of(c.RunLog))
    after = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in after - before if not path.is_relative_to(workspace / "experiment")} == set()
    assert [path for path in after - before if MARK in path.read_bytes()] == []


def _all_buggy(kept: dict[str, Restored]) -> dict[str, Restored]:
    """Let the first stage be begun, with nodes alone that lead nowhere."""
    state = json.loads(json.dumps(kept["Stage_1"].state))
    for each in state["found"]["tried"]:
        each["node"] |= {"metric": None, "scores": {}, "error": "no reason", "works": False}
        each["curve"] = None
    state |= {"is_complete": False}
    state["found"]["record"] = None
    return {"Stage_1": replace(kept["Stage_1"], state=state)}


def test_nodes_of_earlier_attempts_that_lead_nowhere_end_no_run(
    whole: Diary, tools: Tools, tmp_path: Path
) -> None:
    found = _all_buggy(whole.kept)
    second, reporter = MemoryCheckpoints(attempt=2, found=found), RecordingReporter()
    attempt(tmp_path / "second", tools, second, reporter)
    end = reporter.facts[-1]
    assert isinstance(end, c.RunPreempted), end
    assert any("ended by ALL_NODES_BUGGY" in each.message for each in reporter.of(c.RunLog))
    third = Diary(attempt=3, found={**found, **second.kept}, last="Stage_1")
    with pytest.raises(Dead):
        attempt(tmp_path / "third", tools, third, third.reporter)
    assert third.reporter.of(NodeExecuting)
    assert not third.reporter.of(NodeRestored)
    assert not any("cannot be read" in each.message for each in third.reporter.of(c.RunLog))


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_an_error_behind_what_earlier_attempts_left_gives_the_run_back_once(
    whole: Diary, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Validating, "validate", failing(UNFORESEEN))
    second, reporter = MemoryCheckpoints(attempt=2, found=whole.kept), RecordingReporter()
    attempt(tmp_path / "second", tools, second, reporter)
    assert isinstance(reporter.facts[-1], c.RunPreempted), reporter.facts[-1]
    assert {name for name, each in second.kept.items() if not each.state} == {*ORDER}
    monkeypatch.setattr(Searching, "search", failing(UNFORESEEN))
    third = RecordingReporter()
    attempt(tmp_path / "third", tools, MemoryCheckpoints(attempt=3, found=second.kept), third)
    end = third.facts[-1]
    assert isinstance(end, c.RunFailed), "with nothing of others it is its own"
    assert (end.code, end.retryable) == ("KeyError", False)


@dataclass(slots=True)
class Unreachable(MemoryCheckpoints):
    """Checkpoints that reach no storage."""

    def keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
        return "storage does not answer"


@pytest.mark.parametrize(
    ("error", "store", "code"),
    [(MemoryError(), MemoryCheckpoints, "OUT_OF_MEMORY"), (UNFORESEEN, Unreachable, "KeyError")],
)
def test_nothing_is_set_aside_for_a_fault_of_this_pod_nor_where_storage_does_not_take_it(
    whole: Diary, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    error: Exception, store: type[MemoryCheckpoints], code: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(Validating, "validate", failing(error))
    second, reporter = store(attempt=2, found=whole.kept), RecordingReporter()
    attempt(tmp_path, tools, second, reporter)
    end = reporter.facts[-1]
    assert isinstance(end, c.RunFailed), end
    assert end.code == code
    assert not any(not each.state for each in second.kept.values())


def test_what_a_retry_takes_over_is_set_aside_as_what_a_resumption_does(
    whole: Diary, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Validating, "validate", failing(UNFORESEEN))
    found = {name: replace(each, from_run="01K00000000000000000000009") for name, each in whole.kept.items()}
    own, reporter = MemoryCheckpoints(found=found), RecordingReporter()
    attempt(tmp_path, tools, own, reporter)
    assert isinstance(reporter.facts[-1], c.RunPreempted), reporter.facts[-1]
    assert {name for name, each in own.kept.items() if not each.state} == {*ORDER}


def test_a_verdict_on_the_word_of_other_pods_says_so(whole: Diary, tools: Tools, tmp_path: Path) -> None:
    found = {name: replace(each, pods=("alpha", "", "mine")) for name, each in whole.kept.items()}
    reporter = RecordingReporter()
    context = make_context(
        read_spec("experiment", SPEC), tmp_path, reporter=reporter, tools=tools, attempt=2, pod="mine",
        checkpoints=MemoryCheckpoints(attempt=2, found=found),
    )  # fmt: skip
    run_pipeline(pipeline.run, context)
    (said,) = reporter.of(c.ValidationAutoCompleted)
    words = "the word of earlier attempts, on other pods: a pod that is not known, alpha."
    assert words in (said.summary or "")
    assert said.scores["other_pods"] == ["", "alpha"]
    assert "the word of earlier attempts" not in (verdict(whole.reporter)[1] or "")
