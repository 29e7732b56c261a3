"""The form that changes a schedule."""

from __future__ import annotations

from control_plane.model.views.document_mapping import from_document
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
