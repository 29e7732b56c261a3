"""A claim that is too good is measured again by another attempt, on another pod where there is one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from events import catalog as c
from events.kinds import read_spec
from events.kinds.experiment import STAGES, ClaimJudged
from stages.kinds.experiment import pipeline
from stages.kinds.experiment.judging.evaluation_set import Judges
from stages.kinds.experiment.judging.replication import Replication, second_secret
from stages.kinds.experiment.statistics.guards import Arms
from stages.kinds.experiment.statistics.validation import CONTRADICTED, NO_SPREAD, Judgement, undecided
from stages.kinds.experiment.steps import reporting, validating
from stages.kinds.experiment.trials.trial import Bench, Trial, Trials
from stages.pipeline import run_pipeline
from stages.ports.checkpoints import Restored
from stages.testing import MemoryCheckpoints, RecordingReporter, make_context, make_tools

pytestmark = pytest.mark.usefixtures("small_pictures", "small_papers")
SPEC = {
    "idea": "Dropout improves accuracy",
    "preset": "quick",
    "nodes": {"Stage_1": 1, "Stage_2": 1, "Stage_4": 1},
}
TOO_GOOD, GOOD, NOTHING = (0.1, 0.001), (0.1, 0.05), (0.1, 0.1)  # the errors of both arms
SEARCH = STAGES[:4]


class Dead(BaseException):
    """The end of a process."""


@dataclass
class Trainer:
    """In the place of trainings: both arms have these errors in the validation, and in its replication."""

    validation: tuple[float, float] = TOO_GOOD
    replication: tuple[float, float] = TOO_GOOD
    dies_after: int = -1
    seen: list[tuple[str, int, str]] = field(default_factory=list)  # purpose, seed, what hides the rows

    def run(
        self,
        bench: Bench,
        code: str,
        *,
        seeds: Sequence[int],
        judges: Judges,
        folder: Path,
        arm: str,
        gpu: int | None = None,
    ) -> Trials:
        purpose = folder.parent.name
        place = int(folder.name[0]) if purpose in ("validation", "replication") else 0
        error = (self.replication if purpose == "replication" else self.validation)[place]
        if purpose == "replication" and self.dies_after == sum(each[0] == purpose for each in self.seen):
            raise Dead
        self.seen += [(purpose, seed, bench.secret.mark) for seed in seeds]

        def scores(place: int) -> dict[str, float]:
            accuracy = 1.0 - error * (1 + 0.01 * (place % 3))
            return {"accuracy": accuracy, "nll": 0.5, "training_seconds": 1.0, "parameters": 100.0}

        return Trials(tuple(Trial(seed, scores(seed), answers=f"of arm {place}") for seed in seeds), 1.0)


@dataclass
class Careless(MemoryCheckpoints):
    """Keeps nothing of the validation for sure."""

    def keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
        problem = MemoryCheckpoints.keep(self, name, state, files)
        return "the storage is away" if name == "validation" else problem


@dataclass
class Scene:
    """One run, attempt after attempt."""

    folder: Path
    patch: pytest.MonkeyPatch
    kept: dict[str, Restored] = field(default_factory=dict)
    # by the control plane's record: the pods of the attempts, and whether one asked for a replication
    pods: list[str] = field(default_factory=list)
    asked: bool = False
    told: dict[str, Any] = field(default_factory=dict)
    tables: tuple[Path, ...] = ()
    dataset: str = "iris"
    trainer: Trainer = field(default_factory=Trainer)

    def attempt(
        self, pod: str, trainer: Trainer, *, fleet: str = "of tests",
        checkpoints: type[MemoryCheckpoints] = MemoryCheckpoints, reporter: RecordingReporter | None = None,
    ) -> RecordingReporter:  # fmt: skip
        """Let a pod make an attempt that finds what the earlier ones left."""
        found = {
            name: replace(each, pods=tuple(self.pods[: each.attempt])) for name, each in self.kept.items()
        }
        self.pods.append(pod)
        attempt = len(self.pods)
        self.trainer = trainer
        self.patch.setattr(reporting, "draw_all", lambda record, folder: iter(()))
        self.patch.setattr(Bench, "run", lambda bench, code, **how: trainer.run(bench, code, **how))
        reporter, own = reporter or RecordingReporter(), checkpoints(attempt=attempt, found=found)
        context = make_context(
            read_spec("experiment", SPEC | {"dataset": self.dataset}), self.folder / str(attempt),
            reporter=reporter, checkpoints=own, tools=make_tools(judge_secret=fleet, data_sets=self.tables),
            attempt=attempt, pod=pod, replication_asked=self.asked, told=self.told,
        )  # fmt: skip
        try:
            run_pipeline(pipeline.run, context)
        finally:
            self.kept |= own.kept
            self.asked |= any(
                each.replication == "asked for" for each in reporter.of(c.ValidationAutoCompleted)
            )
        return reporter

    def seeds(self, purpose: str) -> set[int]:
        return {seed for name, seed, _ in self.trainer.seen if name == purpose}

    def marks(self, purpose: str) -> set[str]:
        return {mark for name, _, mark in self.trainer.seen if name == purpose}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, RecordingReporter]]:
    """A run whose first attempt, on the pod `alpha`, found its claim too good."""
    with pytest.MonkeyPatch.context() as patch:
        scene = Scene(tmp_path_factory.mktemp("asked"), patch)
        yield scene, scene.attempt("alpha", Trainer())


@pytest.fixture
def scene(asked: tuple[Scene, RecordingReporter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The run as the next attempt finds it."""
    return Scene(tmp_path, monkeypatch, dict(asked[0].kept), ["alpha"], asked=True)


def verdict(reporter: RecordingReporter) -> c.ValidationAutoCompleted:
    (said,) = reporter.of(c.ValidationAutoCompleted)
    return said


def test_what_is_too_good_goes_back_to_the_queue_and_says_that_it_asks_for_replication(
    asked: tuple[Scene, RecordingReporter],
) -> None:
    scene, reporter = asked
    end = reporter.facts[-1]
    assert isinstance(end, c.RunPreempted), end
    assert "replication asked for" in (end.reason or "")
    assert "alpha" in (end.reason or "")
    said = verdict(reporter)
    assert (said.verdict, said.conclusion, said.replication) == ("fail", "inconclusive", "asked for")
    assert "it asks for replication" in (said.summary or "")
    assert len(said.scores["differences"]) == len(scene.seeds("validation"))
    assert any("goes back to the queue" in each.message for each in reporter.of(c.RunLog))
    assert set(scene.kept) == {*SEARCH, "validation"}
    state = scene.kept["validation"].state
    assert (state["is_complete"], "pods" in state["found"]) == (True, False), "nobody asks it who measured"
    assert not scene.seeds("replication")


def test_another_pod_measures_again_from_other_seeds_with_other_rows_and_the_claim_passes(
    asked: tuple[Scene, RecordingReporter], scene: Scene
) -> None:
    reporter = scene.attempt("beta", Trainer())
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    said = verdict(reporter)
    assert (said.verdict, said.replication, said.scores["numbers_untraced"]) == ("pass", "on another pod", [])
    assert said.scores["replication"] == {"place": "on another pod", "pod": "beta", "first_pods": ["alpha"]}
    assert "replicated on another pod, beta, in other units" in (said.summary or "")
    assert "holds there too" in (said.summary or "")
    first = asked[0].seeds("validation")
    assert not scene.seeds("validation")
    assert len(scene.seeds("replication")) == len(first)
    assert not scene.seeds("replication") & first
    assert set(said.scores["seeds"]) == scene.seeds("replication"), "the verdict rests on this measurement"
    assert not scene.marks("replication") & asked[0].marks("validation"), "another secret hides the rows"
    (paper,) = [each.path for each in reporter.files if each.name == "paper/paper.tex"]
    assert "it was replicated on another pod in other units" in " ".join(paper.read_text().split())
    started = [each.stage for each in reporter.of(c.StageStarted)]
    assert started == ["validation", "plots", "paper", "review"]


def test_where_no_other_pod_took_it_the_same_measures_again_and_says_so(scene: Scene) -> None:
    said = verdict(scene.attempt("alpha", Trainer()))
    assert (said.verdict, said.replication) == ("pass", "on the same pod")
    assert "on the same pod, alpha, and on no other," in (said.summary or "")


@pytest.mark.parametrize(
    ("trainer", "conclusion", "words"),
    [
        (Trainer(replication=NOTHING), "inconclusive", NO_SPREAD),
        (Trainer(replication=(0.2, 0.4)), "contradicted", CONTRADICTED),
    ],
)
def test_a_replication_that_does_not_show_the_effect_is_the_verdict(
    scene: Scene, trainer: Trainer, conclusion: str, words: str
) -> None:
    reporter = scene.attempt("beta", trainer)
    said = verdict(reporter)
    assert (said.verdict, said.conclusion, said.replication) == ("fail", conclusion, "on another pod")
    assert words in (said.summary or "")
    assert "is not upheld there" in (said.summary or "")


def test_an_effect_of_usual_size_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch)
    said = verdict(scene.attempt("alpha", Trainer(validation=GOOD)))
    assert (said.verdict, said.replication, "replication" in said.scores) == ("pass", None, False)
    assert "replicated" not in (said.summary or "")
    assert not scene.seeds("replication")


def test_a_replication_that_was_cut_off_is_made_anew_and_whole_and_asked_for_once(scene: Scene) -> None:
    with pytest.raises(Dead):
        scene.attempt("beta", Trainer(dies_after=3))
    reporter = scene.attempt("gamma", Trainer())
    assert (verdict(reporter).verdict, verdict(reporter).replication) == ("pass", "on another pod")
    assert len(scene.seeds("replication")) == len(verdict(reporter).scores["seeds"])
    assert not reporter.of(c.RunPreempted)


def test_what_was_replicated_elsewhere_is_measured_again_by_whoever_gives_the_verdict(scene: Scene) -> None:
    """Everything that the second attempt leaves says that the claim was replicated, and passed."""
    assert verdict(scene.attempt("liar", Trainer())).verdict == "pass"
    assert {"plots", "paper", "review"} <= set(scene.kept)
    reporter = scene.attempt("beta", Trainer(replication=NOTHING))
    assert verdict(reporter).verdict == "fail"
    assert [each.stage for each in reporter.of(c.StageStarted)] == ["validation", "plots", "paper", "review"]


def test_a_measurement_that_no_other_pod_would_find_is_replicated_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    reporter = scene.attempt("alpha", Trainer(), checkpoints=Careless)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    asked, said = reporter.of(c.ValidationAutoCompleted)
    assert [each.replication for each in (asked, said)] == ["asked for", "on the same pod"]
    assert (asked.verdict, said.verdict, said.scores["numbers_untraced"]) == ("fail", "pass", [])


def _cut(scene: Scene, *, is_complete: bool) -> None:
    """Let the first measurement lack most of its trainings."""
    state = json.loads(json.dumps(scene.kept["validation"].state))
    state["is_complete"] = is_complete
    del state["found"]["measured"][4:]
    scene.kept["validation"] = replace(scene.kept["validation"], state=state)


def test_a_measurement_that_was_cut_off_still_asks_for_another_pod(scene: Scene) -> None:
    """A part of it was measured on `alpha`, and so `alpha` is no other pod; nor is `beta`, which ended it."""
    scene.asked = False
    _cut(scene, is_complete=False)
    assert isinstance(scene.attempt("beta", Trainer()).facts[-1], c.RunPreempted)
    kept = dict(scene.kept)
    for pod, place in {
        "alpha": "on the same pod",
        "beta": "on the same pod",
        "gamma": "on another pod",
    }.items():
        again = Scene(scene.folder / pod, scene.patch, dict(kept), ["alpha", "beta"], asked=True)
        assert verdict(again.attempt(pod, Trainer())).replication == place


def test_what_a_pod_says_of_a_measurement_that_it_did_not_make_is_made_anew_with_it(scene: Scene) -> None:
    """It calls a validation finished that lacks trainings, and has written the paper on it already."""
    assert verdict(scene.attempt("liar", Trainer())).verdict == "pass"
    _cut(scene, is_complete=True)
    reporter = scene.attempt("beta", Trainer(replication=NOTHING))
    said = verdict(reporter)
    assert (said.verdict, said.replication) == ("fail", "on the same pod"), "it measured a part of the first"
    assert [each.stage for each in reporter.of(c.StageStarted)] == ["validation", "plots", "paper", "review"]


def test_a_pod_that_nobody_has_a_record_of_counts_as_the_next_one(scene: Scene) -> None:
    scene.pods = [""]
    said = verdict(scene.attempt("beta", Trainer()))
    assert (said.verdict, said.replication) == ("pass", "on the same pod")


def test_no_word_of_a_checkpoint_makes_a_replication_or_another_pod(scene: Scene) -> None:
    state = json.loads(json.dumps(scene.kept["validation"].state))
    for name in ("pods", "replicated", "replication"):
        state[name] = state["found"][name] = ["somebody else"]
    scene.kept["validation"] = replace(scene.kept["validation"], state=state)
    said = verdict(scene.attempt("alpha", Trainer(replication=NOTHING)))
    assert (said.verdict, said.replication) == ("fail", "on the same pod")
    assert scene.seeds("replication")


@pytest.mark.parametrize("arms", [7, ["x", "y"]], ids=["unreadable", "of other programs"])
def test_a_state_that_is_not_used_has_both_measurements_made_here_without_asking_again(
    scene: Scene, arms: Any
) -> None:
    state = json.loads(json.dumps(scene.kept["validation"].state))
    state["found"]["arms"] = arms
    scene.kept["validation"] = replace(scene.kept["validation"], state=state)
    reporter = scene.attempt("beta", Trainer())
    assert (verdict(reporter).verdict, verdict(reporter).replication) == ("pass", "on the same pod")
    assert scene.seeds("validation")
    assert scene.seeds("replication")
    assert any("checkpoint of attempt 1" in each.message for each in reporter.of(c.RunLog))


def test_what_was_set_aside_has_asked_all_the_same(scene: Scene) -> None:
    """The next attempt finds nothing of the measurement, and the record that it asked."""
    scene.kept = {name: Restored(2, {}) for name in scene.kept}
    scene.pods.append("beta")
    reporter = scene.attempt("gamma", Trainer())
    assert isinstance(reporter.facts[-1], c.RunCompleted), "it went back once"
    assert (verdict(reporter).verdict, verdict(reporter).replication) == ("pass", "on the same pod")
    assert scene.seeds("validation")
    assert scene.seeds("replication")


def test_whoever_reads_that_a_measurement_is_whole_knows_by_then_that_it_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control plane takes what a pod says in its order: no other pod replicates what nobody asked for."""
    scene, told = Scene(tmp_path, monkeypatch), []

    @dataclass
    class Watched(MemoryCheckpoints):
        def keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
            if name == "validation" and state["is_complete"]:
                told.append([each.replication for each in said.of(c.ValidationAutoCompleted)])
            return MemoryCheckpoints.keep(self, name, state, files)

    said = RecordingReporter()
    scene.attempt("alpha", Trainer(), checkpoints=Watched, reporter=said)
    assert told == [["asked for"]]


@pytest.mark.parametrize("is_replication", [False, True])
def test_no_measurement_of_a_claim_that_is_too_good_passes_what_a_guard_turns_down(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_replication: bool
) -> None:
    """Where the first one is turned down there is nothing to replicate."""
    dear = GOOD if is_replication else TOO_GOOD

    def turned_down(judgement: Judgement, arms: Arms, *_: object) -> Judgement:
        is_dear = (arms.intervention[0].scores or {})["accuracy"] == pytest.approx(1.0 - dear[1], abs=0.02)
        return undecided(judgement, "it is dear" if is_dear and judgement.verdict == "pass" else None)

    monkeypatch.setattr(validating, "guarded", turned_down)
    scene = scene if is_replication else Scene(tmp_path, monkeypatch)
    reporter = scene.attempt("beta", Trainer(replication=dear))
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    said = verdict(reporter)
    assert (said.verdict, said.replication) == ("fail", "on another pod" if is_replication else None)
    assert "it is dear" in (said.summary or "")
    assert bool(scene.seeds("replication")) == is_replication


def test_a_replication_is_on_another_pod_only_where_every_pod_before_is_known_and_another() -> None:
    assert Replication((), "a").place == "on the same pod"
    assert Replication(("a",), "").place == "on the same pod"
    assert Replication(("a", ""), "c").place == "on the same pod"
    assert Replication(("a", "c"), "c").place == "on the same pod"
    assert Replication(("a", "b"), "c").place == "on another pod"


def test_the_secret_of_a_replication_is_new_or_follows_from_the_fleets() -> None:
    assert second_secret("", 1).key != second_secret("", 1).key
    assert second_secret("fleet", 1).key == second_secret("fleet", 1).key
    assert second_secret("fleet", 1).key != second_secret("fleet", 2).key


def test_a_verdict_says_which_one_on_its_data_it_is_and_a_later_attempt_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, told={"verdicts": {"iris test": 6}, "isWhole": True})
    reporter = scene.attempt("alpha", Trainer(validation=GOOD))
    (judged,) = reporter.of(ClaimJudged)
    assert (judged.data, judged.part, judged.earlier, judged.conclusion) == ("iris", "test", 6, "supported")
    assert judged.p_value is not None
    assert judged.p_beside == min(1.0, 56 * judged.p_value)
    said = verdict(reporter)
    assert "verdict 7 on the test rows of iris (known of other runs" in (said.summary or "")
    assert said.scores["numbers_untraced"] == []
    (paper,) = [each.path for each in reporter.files if each.name == "paper/paper.tex"]
    assert r"counts \val{use.factor}{56} times" in " ".join(paper.read_text().split())
    scene.told = {"verdicts": {"iris test": 9}, "isWhole": True}
    (again,) = scene.attempt("beta", Trainer(validation=GOOD)).of(ClaimJudged)
    assert (again.earlier, again.measurement) == (6, judged.measurement), "as it was when it was measured"
    for lie in (99, None):
        scene.kept["validation"].state["found"]["earlier"] = lie
        (judged,) = scene.attempt("gamma", Trainer(validation=GOOD)).of(ClaimJudged)
        assert judged.earlier == 9, "no more than there are by now"


def test_a_replication_is_judged_by_rows_that_no_first_measurement_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{row % 7},{row * 37 % 101},{row % 2}" for row in range(1_200)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,target", *lines]))
    scene = Scene(tmp_path, monkeypatch, tables=(tmp_path,), dataset="t.csv")
    first = scene.attempt("alpha", Trainer())
    (judged,) = first.of(ClaimJudged)
    scene.told = {"verdicts": {f"{judged.data} test": 3, f"{judged.data} reserve": 1}, "isWhole": True}
    reporter = scene.attempt("beta", Trainer())
    (again,) = reporter.of(ClaimJudged)
    assert (judged.part, again.part, again.earlier) == ("test", "reserve", 1)
    assert again.data == judged.data
    assert (judged.rows, again.rows) == (round(0.3 * 1_020), 90)
    said = verdict(reporter)
    assert said.verdict == "pass"
    assert "judged by rows of the reserve, which no first measurement opens" in (said.summary or "")
    assert said.scores["replication"]["by_reserve"]
    assert said.scores["test_rows"] == 90
    assert said.scores["numbers_untraced"] == []
    (paper,) = [each.path for each in reporter.files if each.name == "paper/paper.tex"]
    assert "of the reserve" in " ".join(paper.read_text().split())
    assert any("180 of the 1200 rows are a reserve" in each.message for each in first.of(c.RunLog))


@dataclass
class Timed(Trainer):
    """Trainings of which it is seen how many run at once, and in which order."""

    order: list[tuple[int, str]] = field(default_factory=list)
    running: int = 0
    most: int = 0

    def run(self, bench: Bench, code: str, **how: Any) -> Trials:
        is_measured = how["folder"].parent.name == "validation"
        self.running += is_measured
        self.most = max(self.most, self.running)
        if is_measured:
            self.order.append((how["seeds"][0], how["folder"].name[0]))
            threading.Event().wait(0.01)  # longer than it takes to begin another
        found = Trainer.run(self, bench, code, **how)
        self.running -= is_measured
        return found


@pytest.mark.parametrize(("idea", "is_alone"), [("training time", True), ("error", False)])
def test_a_claim_about_time_is_measured_by_one_program_at_a_time_the_arms_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idea: str, is_alone: bool
) -> None:
    monkeypatch.setitem(SPEC, "idea", f"Dropout reduces the {idea} on iris")
    trainer = Timed(validation=NOTHING)
    reporter = Scene(tmp_path, monkeypatch).attempt("alpha", trainer)
    assert (trainer.most == 1) == is_alone
    said = " ".join(each.message for each in reporter.of(c.RunLog))
    assert ("one program runs at a time" in said) == is_alone
    assert ("the load average is" in said) == is_alone
    (paper,) = [each.path for each in reporter.files if each.name == "paper/paper.tex"]
    assert ("took turns to be the first" in " ".join(paper.read_text().split())) == is_alone
    if is_alone:
        firsts = [arm for _, arm in trainer.order[::2]]
        assert firsts[:4] == ["0", "1", "0", "1"]
        assert [seed for seed, _ in trainer.order[::2]] == [seed for seed, _ in trainer.order[1::2]]
