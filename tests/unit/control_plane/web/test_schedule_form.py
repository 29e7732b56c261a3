"""The form that changes a schedule."""

from __future__ import annotations

import json

import msgspec
import pytest

from control_plane.model.views.document_mapping import from_document
from control_plane.server.web.forms.fields import Unfit
from control_plane.server.web.forms.schedule import ScheduleForm
from events.answers.schedules import Schedule

STORED = from_document(
    Schedule,
    {
        "_id": "nightly",
        "cron": "@daily",
        "timeZone": "Europe/Berlin",
        "missed": "all",
        "overlap": "skip",
        "paused": True,
        "run": {
            "kind": "probe",
            "spec": {"seconds": 1},
            "priority": 5,
            "requires": {"region": "eu"},
            "maxAttempts": 7,
            "queueLimitS": 60,
            "labels": {"team": "vision"},
        },
    },
)


def test_what_the_form_does_not_ask_stays_as_it_was() -> None:
    form = ScheduleForm.of(STORED).model_copy(update={"cron": "@hourly", "id": "another"})
    wanted = form.changed(STORED, "maria")
    assert (wanted.id, wanted.cron, wanted.paused, wanted.by) == ("nightly", "@hourly", True, "maria")
    assert (wanted.time_zone, wanted.missed, wanted.overlap) == ("Europe/Berlin", "all", "skip")
    run = wanted.run
    assert (run.kind, run.spec, run.priority) == ("probe", {"seconds": 1}, 5)
    assert (run.requires, run.max_attempts, run.queue_limit_s) == ({"region": "eu"}, 7, 60)
    assert run.labels == {"team": "vision"}


BENCHMARK = msgspec.structs.replace(
    STORED,
    run=msgspec.structs.replace(
        STORED.run,
        kind="benchmark",
        spec={"model": "m-1", "suites": ["aime", "gsm8k"], "sample_size": 20, "seed": 3, "epochs": 2},
    ),
)


def asked(**fields: str) -> dict[str, str]:
    return {f"asked.benchmark.{name}": text for name, text in fields.items()}


def test_the_fields_of_a_kind_stand_beside_the_rest_of_its_specification() -> None:
    form = ScheduleForm.of(BENCHMARK)
    assert json.loads(form.spec) == {"epochs": 2}
    assert form.typed["asked.benchmark.sample_size"] == "20"
    kept = form.changed(BENCHMARK, "maria").run
    assert kept.spec == BENCHMARK.run.spec
    smaller = form.model_copy(
        update={"typed": {**form.typed, **asked(sample_size="", subset_pct="2.5", seed="7")}}
    )
    spec = smaller.changed(BENCHMARK, "maria").run.spec
    assert spec == {"epochs": 2, "model": "m-1", "suites": ["aime", "gsm8k"], "subset_pct": 2.5, "seed": 7}


@pytest.mark.parametrize(
    ("kind", "spec", "typed", "problem"),
    [
        ("benchmark", '{"seed": 1}', asked(model="m-1", seed="1"), "`seed` has a field of its own"),
        ("benchmark", "", asked(model="m-1", sample_size="many"), "whole number"),
        ("probe", "", asked(model="m-1"), "leave these fields empty"),
        ("benchmark", "{", asked(model="m-1"), "no JSON"),
    ],
)
def test_a_field_that_does_not_fit_is_told(kind: str, spec: str, typed: dict[str, str], problem: str) -> None:
    form = ScheduleForm(id="nightly", cron="@daily", kind=kind, spec=spec, typed=typed)
    with pytest.raises(Unfit, match=problem):
        form.wanted("maria")


def test_a_form_without_a_name_is_of_the_schedule_of_its_model() -> None:
    typed = asked(model="m-1", suites="gsm8k", sample_size="5")
    wanted = ScheduleForm(cron="@daily", kind="benchmark", typed=typed).wanted("maria")
    assert (wanted.id, wanted.run.spec) == ("", {"model": "m-1", "suites": "gsm8k", "sample_size": 5})
