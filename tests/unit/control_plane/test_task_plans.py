"""The study of a task, its command line, its experiments, and its text, without a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from control_plane.kinds.trial.bodies import PruneTrialsBody, TaskBody, name_of_model
from control_plane.kinds.trial.charts import latency_figure, objective_bars
from control_plane.kinds.trial.exchange import exported, read_task
from control_plane.kinds.trial.forms import TaskForm
from control_plane.kinds.trial.planning import (
    measurements,
    plan_of_task,
    require_valid,
    run_of,
    settled,
    trials_max,
)
from control_plane.kinds.trial.reads import Round
from control_plane.kinds.trial.service import parts_of
from control_plane.kinds.trial.standing import (
    Tally,
    experiments_of,
    failure_of,
    gain,
    standing_of,
    tally_of,
)
from control_plane.model.groups.pruning import Pruning, Stop
from control_plane.model.groups.study import study_of
from control_plane.model.groups.trials import trial_of
from events.answers.kinds.tasks import TaskFailure, TriedConfiguration
from events.kinds import read_spec
from events.kinds.trial import TrialSpec
from events.runtime.errors import Rejected

SINCE = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)


def task_of(**changes: Any) -> TaskBody:
    fields = {"name": "t", "model": {"id": "a/b/variant"}, "parameters": {"n_parallel": [1, 2, 4]}}
    return TaskBody.model_validate({**fields, **changes})


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("meta-llama/Llama-3.2-1B-Instruct", "Llama-3.2-1B-Instruct"),
        ("a/b/variant", "variant"),
        ("smollm2", "smollm2"),
        ("a/", "a"),
    ],
)
def test_a_model_is_named_by_the_last_part_of_its_id(model_id: str, name: str) -> None:
    assert name_of_model(model_id) == name
    body = task_of(model={"id": model_id})
    assert (body.model.name, body.model.tokenizer) == (name, model_id)
    own = task_of(model={"id": model_id, "name": "mine", "tokenizer": "its own"})
    assert (own.model.name, own.model.tokenizer) == ("mine", "its own")


def test_each_part_of_a_task_is_a_part_of_its_trials_or_of_their_plan() -> None:
    body = task_of(
        parameters={
            "n_parallel": {"low": 1, "high": 8},
            "n_batch": {"low": 32, "high": 300, "log": True},
            "flash_attn": ["auto", "disabled"],
            "n_ctx": 4096,
        },
        optimization={
            "strategy": "bayesian",
            "objective": {"metric": "ttft_p99_s", "direction": "minimize"},
            "constraints": ["error_rate <= 0.01"],
            "max_iterations": 6,
            "repeats": 2,
            "patience": 3,
        },
        benchmark={
            "traffic_scenarios": ["D(100,20)", "N(200,50)/(40,10)"],
            "num_concurrency": [1, 4],
            "rates": [2.5],
            "limits": {"ttft_s": 0.5},
        },
        deployment_mode="docker",
        runtime_image_tag="image:1",
        placement={"requires": {"labels": {"gpu": "h100"}}, "priority": 5},
    )
    require_valid(body)
    run, plan = parts_of(body)
    spec = read_spec("trial", run["spec"])
    assert (run["kind"], run["priority"], run["requires"]) == (
        "trial",
        5,
        {"labels": {"engine-docker": "yes", "gpu": "h100"}},
    )
    told = {name: getattr(spec, name) for name in ("model", "parameters", "rates", "image", "ttft_limit_s")}
    assert told == {
        "model": "a/b/variant", "parameters": {"n_ctx": 4096}, "rates": [2.5], "image": "image:1",
        "ttft_limit_s": 0.5,
    }  # fmt: skip
    assert (plan["sampler"], plan["goal"], plan["max_runs"], plan["repeats"], plan["patience"]) == (
        "tpe", "min:ttft_p99_s", 12, 2, 3,
    )  # fmt: skip
    assert plan["space"] == {
        "parameters.n_parallel": {"type": "int", "low": 1, "high": 8},
        "parameters.n_batch": {"type": "values", "values": [32, 64, 128, 256, 300]},
        "parameters.flash_attn": {"type": "values", "values": ["auto", "disabled"]},
    }
    assert plan["baseline"] == {
        "parameters.n_parallel": 4, "parameters.n_batch": 2048, "parameters.flash_attn": "auto",
    }  # fmt: skip
    assert (trials_max(study_of(plan)), measurements(body)) == (6, 6)


@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        ({"id": "smollm2"}, ""),
        ({"id": "Qwen/Qwen3-0.6B"}, "Qwen/Qwen3-0.6B"),
        ({"id": "smollm2", "tokenizer": "a/b"}, "a/b"),
    ],
)
def test_another_client_has_the_tokenizer_of_the_hub(model: dict[str, str], tokenizer: str) -> None:
    body = task_of(model=model, benchmark={"client": "genai-bench"})
    require_valid(body)
    spec = read_spec("trial", run_of(body)["spec"])
    assert (spec.client, spec.tokenizer) == ("genai-bench", tokenizer)  # type: ignore[attr-defined]
    assert TaskForm.of(body, 1).body().benchmark.client == "genai-bench"
    assert not {"client", "tokenizer"} & {*run_of(task_of(model=model))["spec"]}


@pytest.mark.parametrize(
    ("benchmark", "model", "words"),
    [
        ({"rates": [1]}, {"id": "m"}, "benchmark.client: genai-bench has no rates"),
        ({"traffic_scenarios": "E(9)"}, {"id": "m"}, "benchmark.client: genai-bench asks for one embedding"),
        ({}, {"id": "a/b/c"}, "model.tokenizer: genai-bench takes an id of the hub"),
    ],
)
def test_what_another_client_cannot_do_is_refused(
    benchmark: dict[str, Any], model: dict[str, Any], words: str
) -> None:
    with pytest.raises(Rejected, match=words):
        require_valid(task_of(model=model, benchmark={**benchmark, "client": "genai-bench"}))


@pytest.mark.parametrize(
    ("strategy", "parameters", "baseline", "most", "experiments"),
    [
        ("grid", {"n_parallel": [1, 2]}, False, 10, 2),
        ("grid", {"n_parallel": [1, 2]}, True, 10, 3),  # the default is 4
        ("grid", {"n_parallel": [1, 4]}, True, 10, 2),
        ("grid", {"n_parallel": [1, 2], "n_batch": [32, 64]}, False, 3, 3),
        ("random", {"n_parallel": [1, 2], "n_batch": [32, 64]}, False, 10, 4),
        ("bayesian", {"n_parallel": {"low": 1, "high": 256}}, True, 10, 10),
        ("grid", {"n_threads": [1, 2]}, True, 10, 3),  # the default is 0: what the pod has, less one
    ],
)
def test_experiments_are_counted_before_they_are_made(
    strategy: str, parameters: Any, baseline: bool, most: int, experiments: int
) -> None:
    wanted = {"strategy": strategy, "baseline": baseline, "max_iterations": most}
    body = task_of(parameters=parameters, optimization=wanted)
    require_valid(body)
    assert trials_max(study_of(plan_of_task(body))) == experiments


def test_a_task_that_ends_trials_early_compares_its_objective_after_each_measurement() -> None:
    objective = {"metric": "ttft_p99_s", "direction": "minimize"}
    body = task_of(optimization={"objective": objective, "prune": {}}, benchmark={"repeats": 2})
    require_valid(body)
    run, plan = parts_of(body)
    spec = read_spec("trial", run["spec"])
    assert isinstance(spec, TrialSpec)
    assert spec.metrics == ["ttft_p99_s"]
    rule = study_of(plan).pruning
    assert rule == Pruning(
        metric="ttft_p99_s", is_lower_better=True, keep_percent=50.0, after_step=1, min_members=5
    )
    form = TaskForm.of(body, 1)
    assert (form.prune_after, form.body().optimization.prune) == ("1", body.optimization.prune)
    assert form.model_copy(update={"prune_after": "3"}).body().optimization.prune == PruneTrialsBody(after=3)
    assert ("prune" in plan_of_task(task_of()), "metrics" in run_of(task_of())["spec"]) == (False, False)


@pytest.mark.parametrize(
    ("optimization", "benchmark", "words"),
    [
        ({}, {"num_concurrency": [1]}, r"prune: a trial makes one measurement"),
        ({"prune": {"after": 2}}, {}, r"prune\.after: a trial makes 2 measurements; 1 at most, not 2"),
        ({"max_iterations": 5}, {}, r"prune\.min_members: 5 trials are compared with at least; there are 5"),
        ({"objective": {"metric": "start_s"}}, {}, r"prune: start_s is not known before a trial ends"),
        ({"second_objective": {"metric": "ttft_p99_s"}}, {}, r"prune: it compares one objective"),
    ],
)
def test_trials_that_cannot_be_ended_early_are_refused(
    optimization: dict[str, Any], benchmark: dict[str, Any], words: str
) -> None:
    with pytest.raises(Rejected, match=words):
        require_valid(task_of(optimization={"prune": {}, **optimization}, benchmark=benchmark))


def test_an_experiment_that_was_ended_early_says_why_and_is_never_the_best() -> None:
    prune: dict[str, Any] = {"objective": {"metric": "e2e_mean_s", "direction": "minimize"}, "prune": {}}
    study = study_of(plan_of_task(task_of(optimization={**prune, "repeats": 2, "baseline": False})))
    stop = Stop(metric="e2e_mean_s", step=1, value=9.0, bound=1.0, members=5)
    ended: dict[str, Any] = {"cancelRequested": {"by": "group:g", "pruned": stop.stored()}}
    runs = [run(0, value=0.5), run(1, value=0.5), run(2, "CANCELED", **ended), run(3, value=0.1)]
    values = {each["_id"]: {"parameters.n_parallel": each["slot"] // 2} for each in runs}
    good, bad = experiments_of(study, {"round": 1, "first": 0}, runs, values)
    assert (good.status, good.is_best) == ("success", True)
    assert (bad.status, bad.is_best, bad.failure) == ("cancelled", False, f"pruned: {stop}")
    trials = [trial_of(each, values[each["_id"]], study.metrics, study.constraints) for each in runs]
    assert tally_of(study, 1, trials) == Round([good, bad]).tally == Tally(2, 1, "1-1", 0.5)


def test_of_the_failures_of_a_round_the_most_frequent_is_told_by_its_newest_run() -> None:
    def failed(slot: int, code: str) -> dict[str, Any]:
        return run(slot, "FAILED", error={"code": code, "message": f"said by {slot}"})

    runs = [run(0, value=1.0), failed(1, "A"), failed(2, "B"), failed(3, "A"), run(4, "CANCELED")]
    found = failure_of(runs)
    assert found == TaskFailure(code="A", message="said by 3", count=2, run_id="R3")
    assert failure_of([run(0, value=1.0), run(1, "CANCELED")]) is None
    odd = failure_of([run(0, "FAILED", error=5), run(1, "FAILED", error={"code": [1], "message": 7})])
    assert odd == TaskFailure(code=None, message=None, count=2, run_id="R1")


def run(slot: int, status: str = "COMPLETED", value: float | None = None, **more: Any) -> dict[str, Any]:
    summary = {} if value is None else {"summary": {"e2e_mean_s": value, "error_rate": 0.0}}
    return {"_id": f"R{slot}", "slot": slot, "status": status, **summary, **more}


def test_experiments_are_numbered_from_one_in_each_round_and_judged_by_the_mean_of_their_runs() -> None:
    body = task_of(
        optimization={
            "objective": {"metric": "e2e_mean_s", "direction": "minimize"},
            "repeats": 2,
            "constraints": ["error_rate <= 0.1"],
        }
    )
    study, group = study_of(plan_of_task(body)), {"round": 3, "first": 10}
    runs = [
        run(10, value=0.2), run(11, value=0.4),  # the baseline
        run(12, value=0.1), run(13, "FAILED", error={"code": "X", "message": "y"}),
        run(14, summary={"e2e_mean_s": 0.01, "error_rate": 0.5}), run(15, value=0.01),
        run(16, "RUNNING", currentStage={"name": "deploy"}), run(17, "QUEUED"),
        run(18, "RUNNING", currentStage={"name": "D(100,20)"}),
    ]  # fmt: skip
    chosen = [4, 4, 1, 1, 2, 2, 8, 8, 16]
    values = {each["_id"]: {"parameters.n_parallel": value} for each, value in zip(runs, chosen, strict=True)}
    found = experiments_of(study, group, runs, values)
    assert [each.id for each in found] == ["3-1", "3-2", "3-3", "3-4", "3-5"]
    assert [each.status for each in found] == [
        "success", "success", "success", "deploying", "benchmarking",
    ]  # fmt: skip
    # the second was measured once, by chance better than what ran twice
    assert [each.is_best for each in found] == [True, False, False, False, False]
    assert [each.is_baseline for each in found] == [True, False, False, False, False]
    assert (found[0].score, found[0].low, found[0].high) == (pytest.approx(0.3), 0.2, 0.4)
    trials = [trial_of(each, values[each["_id"]], study.metrics, study.constraints) for each in runs]
    assert tally_of(study, 3, trials) == Round(found).tally == Tally(5, 3, "3-1", found[0].score)
    assert (found[2].infeasible or "").startswith("error_rate <= 0.1")
    assert gain(found[1], found[0], is_lower_better=True) == pytest.approx(2 / 3)
    assert gain(found[1], None, is_lower_better=True) is None


@pytest.mark.parametrize(
    ("begun", "status", "shown"),
    [
        (0, None, "PENDING"), (1, None, "RUNNING"), (2, "COMPLETED", "RUNNING"), (1, "OPEN", "RUNNING"),
        (1, "PAUSED", "RUNNING"), (1, "CANCELING", "RUNNING"), (1, "COMPLETED", "COMPLETED"),
        (1, "FAILED", "FAILED"), (1, "CANCELED", "CANCELLED"),
    ],
)  # fmt: skip
def test_a_task_stands_where_its_group_stands(begun: int, status: str | None, shown: str) -> None:
    closed = {"action": "close", "at": SINCE + timedelta(seconds=559)}
    group = status and {
        "round": 1, "status": status, "since": SINCE, "journal": [closed], "updatedAt": SINCE,
    }  # fmt: skip
    standing = standing_of({"begun": begun}, group or None)
    assert standing.status == shown
    is_over = shown in ("COMPLETED", "FAILED", "CANCELLED")
    assert (standing.completed_at is not None) is is_over
    if is_over:
        assert standing.elapsed_s(SINCE + timedelta(days=1)) == 559.0


def test_a_task_is_the_same_after_its_text_was_read_again() -> None:
    body = task_of(
        description="ü: #1", parameters={"n_parallel": {"low": 1, "high": 8}, "flash_attn": "auto"}
    )
    assert read_task(exported(body, "json")) == body
    assert read_task(exported(body, "yaml")) == body
    assert read_task(exported(body, "yaml"), "other").name == "other"
    assert "!!" not in exported(body, "yaml")


HOSTILE = [
    "", "[]", "name: x", "{", "a: &x [1]\nb: *x", "!!python/object/apply:os.system [ls]",
    "name: 2026-01-01\nmodel: {id: m}\nparameters: {n_parallel: [1, 2]}", "[" * 5_000, "{" * 5_000,
    '{"a": ' * 5_000, "x" * 70_000, "a: \x00", "- " * 3_000, "a: .nan", "? [1]\n: 2",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(Rejected) as refused:
        read_task(text)
    assert refused.value.code == "bad_import"
    assert 0 < len(refused.value.message) <= 2_000


@pytest.mark.parametrize(
    ("text", "words"),
    [("name: &n t\ndescription: *n", "line 1: no anchors"), ("name: !!str t", "line 1: no tags are read")],
)
def test_a_text_is_as_large_as_it_looks(text: str, words: str) -> None:
    rest = "\nmodel: {id: m}\nparameters: {n_parallel: [1, 2]}"
    assert read_task(f"name: t{rest}").name == "t"
    with pytest.raises(Rejected, match=words):
        read_task(text + rest)


def test_what_a_text_says_is_checked_as_what_is_posted() -> None:
    fields = {"name": "t", "model": {"id": "m"}, "parameters": {"n_parallel": [1, 2]}}
    with pytest.raises(Rejected, match="status: Extra inputs"):
        read_task(yaml.safe_dump({**fields, "status": "RUNNING"}))
    with pytest.raises(Rejected, match=r"memory_gib: Input should be greater than or equal to 0\.0625"):
        read_task(yaml.safe_dump({**fields, "benchmark": {"memory_gib": 0.06}}))


def test_a_run_has_no_empty_fields() -> None:
    assert {"image", "command", "ttft_limit_s"}.isdisjoint(run_of(task_of())["spec"])


def test_two_objectives_what_runs_again_and_budgets_are_those_of_the_plan() -> None:
    wanted = {
        "objective": {"metric": "ttft_p99_s", "direction": "minimize"},
        "second_objective": {"metric": "tokens_out_per_s", "direction": "maximize"},
        "max_iterations": 10, "repeats": 2, "baseline_every": 3, "max_seconds": 60.0, "max_cost_usd": 5.0,
    }  # fmt: skip
    _, plan = parts_of(task_of(optimization=wanted))
    assert plan["goal"] == ["min:ttft_p99_s", "max:tokens_out_per_s"]
    assert (plan["baseline_every"], plan["max_seconds"], plan["max_cost_usd"]) == (3, 60.0, 5.0)
    assert (plan["max_runs"], trials_max(study_of(plan))) == (10 * 2 + 3, 3)  # of three values alone
    confirm = {"max_iterations": 10, "confirm": {"top": 2, "repeats": 4}}
    _, plan = parts_of(task_of(optimization=confirm))
    assert (plan["confirm"], plan["max_runs"]) == ({"top": 2, "repeats": 4}, 10 + (2 + 1) * 4)
    assert study_of(plan).search_slots == 10


def test_a_form_says_the_task_that_it_was_filled_in_with() -> None:
    body = settled(
        task_of(
            parameters={
                "n_parallel": [1, 2], "n_batch": {"low": 32, "high": 300, "log": True}, "n_ctx": 4096,
                "flash_attn": ["auto"],
            },
            optimization={
                "second_objective": {"metric": "ttft_p99_s", "direction": "minimize"},
                "constraints": ["error_rate <= 0.1"], "confirm": {"top": 2, "repeats": 4}, "patience": 3,
                "baseline": {"n_parallel": 1, "n_batch": 64, "flash_attn": "auto"}, "max_seconds": 60.0,
            },
            benchmark={"rates": [2.123456789], "limits": {"ttft_s": 0.5}, "offline": True, "repeats": 2,
                       "memory_gib": 1.5, "cores": 2, "token_secret": "HF_TOKEN_A", "proxy_secret": "PROXY_A",
                       "certificates_secret": "CERTIFICATES_A"},
            placement={"labels": {"team": "vision"}, "requires": {"region": "eu"}, "max_attempts": 2},
        )
    )  # fmt: skip
    form = TaskForm.of(body, 1)
    assert (form.touched, form.model_name) == ("", "variant")
    again = TaskForm.read({**form.model_dump(exclude={"typed"}), **form.typed})
    assert settled(again.body()) == body
    run = run_of(body)
    bounds = {name: run["spec"][name] for name in ("memory_gib", "cores", "token_secret")}
    assert bounds == {"memory_gib": 1.5, "cores": 2, "token_secret": "HF_TOKEN_A"}
    assert run["secrets"] == ["HF_TOKEN_A", "PROXY_A", "CERTIFICATES_A"]
    assert run["requires"]["labels"]["engine-proxy"] == "yes"
    own = task_of(model={"id": "a/b", "name": "mine"})
    assert TaskForm.of(own, 1).touched == "model_name"


ODD = {"a": "</title>\x00", "b": 2}


def test_the_charts_of_a_task_tell_the_best_and_each_load_and_bear_any_number() -> None:
    def tried(number: int, score: float, *, is_best: bool = False) -> TriedConfiguration:
        return TriedConfiguration(
            id=f"1-{number}", number=number, status="success", parameters=ODD, score=score, low=score - 0.1,
            high=score + 0.1, is_best=is_best, is_baseline=False, infeasible=None, failure=None,
            outcome="success", summary={}, runs=[],
        )  # fmt: skip

    bars = objective_bars([tried(1, 0.1931), tried(2, 0.1916, is_best=True)], "e2e_mean_s")
    assert bars is not None
    assert bars.picture.count("#10b981") == 2, "the bar and its star"
    assert "Experiment 2: 0.1916 (0.0916 to 0.2916), Best Experiment" in bars.picture
    whole = ElementTree.fromstring(bars.alone)  # noqa: S314 - our own
    assert (whole.tag, whole.get("width")) == ("{http://www.w3.org/2000/svg}svg", "640")
    assert "Experiment 1: 0.1931 (0.0931 to 0.2931)\na=</title>\ufffd, b=2" in [*whole.itertext()]
    assert objective_bars([tried(1, 1e300)], "<b>") is None, "nothing that can be drawn"
    many = objective_bars([tried(number, -float(number)) for number in range(1, 500)], "x")
    assert many is not None
    assert many.left_out == 499 - 60
    rows = [
        {"scenario": "<b>", "concurrency": load, "tokens_out_per_s": load * 2.0, "e2e_p50_s": 1.0 + load}
        for load in (4, 1)
    ]
    figure = latency_figure({"best": [*rows, {"concurrency": "x"}, {}]})
    assert figure is not None
    assert ("&lt;b&gt;" in figure.picture, "<b>" in figure.picture) == (True, False)
    assert ">4</text>" in figure.picture
    assert latency_figure({"best": [{}]}) is None


@pytest.mark.parametrize("given", [{"low": 5, "high": 1}, {"low": 5, "high": 5}, {"low": 0, "high": 9}])
def test_a_range_that_is_none_is_refused_of_any_engine(given: dict[str, Any]) -> None:
    body = task_of(base_runtime="command", command="serve {port}", parameters={"x": {**given, "log": True}})
    with pytest.raises(Rejected, match=r"parameters\.x: .*low"):
        require_valid(body)
