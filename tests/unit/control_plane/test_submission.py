"""What is made of a submission before it is stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from control_plane.model.ownership import strangers
from control_plane.runs.options import LABEL_CHARS_MAX
from control_plane.runs.submission import (
    WORDS_MAX,
    Order,
    Submission,
    check,
    check_stage,
    checked,
    following,
    labels_of,
    run_fields,
    snapshot,
    words_of,
)
from events.kinds import KINDS
from events.lifecycle import Status
from events.queue.journal import Expression
from events.runtime.errors import Rejected
from events.testing import EPOCH

WANTED = Submission(kind="probe", spec={}, by="me")


def test_a_run_is_found_by_so_many_words() -> None:
    assert words_of("A b, a!") == ["a", "b"]
    assert len(words_of(" ".join(map(str, range(1_000))))) == WORDS_MAX


def test_a_label_that_a_kind_takes_from_a_specification_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    order = check(WANTED)
    kind = replace(KINDS["probe"], labels={"long": "words"})
    monkeypatch.setitem(KINDS, "probe", kind)  # type: ignore[arg-type]

    class Spec:
        words = "x" * 10_000

    long: Any = Spec()
    assert labels_of(replace(order, spec=long)) == {"long": "x" * LABEL_CHARS_MAX}
    assert labels_of(Order(replace(WANTED, labels={"long": "mine"}), long, order.requires, "")) == {
        "long": "mine"
    }


@pytest.mark.parametrize(("kind", "code"), [("probe", None), ("nothing", "unknown_kind")])
def test_a_run_is_of_a_kind_that_there_is(kind: str, code: str | None) -> None:
    if code is None:
        check(replace(WANTED, kind=kind))
        return
    with pytest.raises(Rejected) as refused:
        check(replace(WANTED, kind=kind))
    assert refused.value.code == code


def test_a_run_begins_at_a_stage_of_its_kind() -> None:
    check_stage("experiment", "Stage_1")
    with pytest.raises(Rejected, match="unknown stage 'x'; known"):
        check_stage("experiment", "x")


def test_text_of_a_person_is_no_expression_of_the_store_and_a_past_start_no_way_ahead() -> None:
    labels = {"a.b": "$$NOW", "$set": "x"}
    fields = run_fields(check(replace(WANTED, labels=labels, not_before=EPOCH)))
    assert fields["labels"] == Expression({"$literal": labels})
    assert fields["queuedAt"] == Expression({"$max": ["$$NOW", {"$literal": EPOCH}]})
    assert fields["status"] == Status.DELAYED.value
    assert run_fields(check(WANTED))["queuedAt"] == Expression("$$NOW")


def test_every_field_of_a_new_run_has_a_writer() -> None:
    wanted = replace(WANTED, group_id="g", slot=0, idempotency_key="k", secrets=("API_KEY",))
    assert strangers("runs", run_fields(check(wanted))) == []


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"seconds": 2}}, {"priority": 1}, {"requires": {"gpu_gib": 1}}, {"max_attempts": 1},
        {"not_before": EPOCH}, {"queue_limit_s": 1}, {"labels": {"a": "b"}}, {"hypothesis_id": "h"},
    ],
)  # fmt: skip
def test_another_content_under_the_same_key_is_another_run(change: dict[str, Any]) -> None:
    first = check(replace(WANTED, spec={"seconds": 1}))
    assert check(replace(first.wanted, **change)).digest != first.digest
    assert check(replace(first.wanted, by="another", idempotency_key="k")).digest == first.digest
    later = replace(first.wanted, not_before=EPOCH + timedelta(seconds=1))
    assert check(later).digest != check(replace(later, not_before=EPOCH)).digest


async def test_the_seed_of_an_experiment_follows_from_the_id_of_its_run_unless_it_is_given() -> None:
    wanted = Submission(kind="experiment", spec={"idea": "Dropout helps"}, by="me")
    one, same, other = (snapshot(name, wanted)["spec"]["seed"] for name in ("a", "a", "b"))
    assert one == same != other
    given = replace(wanted, spec={"idea": "Dropout helps", "seed": 7})
    assert snapshot("a", given)["spec"] == {"idea": "Dropout helps", "seed": 7}
    assert snapshot("a", WANTED)["spec"] == {}, "no other kind has one"
    assert "seed" not in (await checked(wanted)).spec, "what is checked has no id"
    assert (await checked(given)).spec["seed"] == 7
    assert check(wanted).digest == check(wanted).digest, "an idempotency key is held against what was sent"


def test_a_retry_reads_the_files_of_the_runs_for_which_it_waits_and_what_was_found_stays() -> None:
    found = f"run:OTHER/*.pt@{'1' * 64}"
    spec = {"command": "x", "inputs": {"a": "run:OLD/m/*.pt", "b": "run:OLD", "c": found, "d": "images/3"}}
    after = {"OLD": "NEW", "OTHER": "NEWER"}
    again = {"a": "run:NEW/m/*.pt", "b": "run:NEW", "c": found, "d": "images/3"}
    assert following(spec, after) == {"command": "x", "inputs": again}
    assert following({"inputs": 5}, after) == {"inputs": 5}
    assert following({"x": 1}, {}) == {"x": 1}
