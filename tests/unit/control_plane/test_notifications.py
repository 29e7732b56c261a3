"""What is told to whom, in which words, signed how, and what follows from a receiver's answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from control_plane.upkeep.notifications.mailer import message
from control_plane.upkeep.notifications.notification import BODY_BYTES_MAX, Notification, of_end, of_group
from control_plane.upkeep.notifications.retrying import (
    RETRY_AFTER_MAX_S,
    TRIES_MAX,
    WAITS_S,
    Again,
    Answer,
    Done,
    GivenUp,
    outcome,
    read_retry_after,
)
from control_plane.upkeep.notifications.signing import headers, new_secret
from control_plane.upkeep.notifications.subscription import fault_of_target, place_of, subscription_in
from control_plane.upkeep.notifications.wording import subject_of, text_of, worded
from events.runtime.clock import SystemClock
from events.runtime.egress_policy import read_egress_policy
from events.testing import EPOCH

PUBLIC = read_egress_policy("")
INSIDE = read_egress_policy("10.0.0.0/8, hooks.internal")


def told(**data: Any) -> str:
    return Notification(
        key="k", type="run.failed", at=EPOCH, subject="run/1", data={"id": "1", **data}
    ).body()


def run(**fields: Any) -> dict[str, Any]:
    return {
        "_id": "01R", "kind": "probe", "title": "t", "status": "FAILED", "classKey": "probe/cpu/any",
        "labels": {}, "attempt": 2, "error": {"code": "C", "message": "m", "stage": "s", "fault": "pod"},
        "summary": {"loss": 0.5, "odd": float("nan"), "text": "x"}, "finishedAt": EPOCH, **fields,
    }  # fmt: skip


def test_a_signature_is_that_of_the_specifications_example() -> None:
    body = b'{"event_type":"ping","data":{"success":true}}'
    made = headers(["whsec_plJ3nmyCDGBKInavdOK15jsl"], "msg_loFOjxBNrRLzqYUf", 1731705121, body)
    assert made == {
        "webhook-id": "msg_loFOjxBNrRLzqYUf",
        "webhook-timestamp": "1731705121",
        "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    }
    assert new_secret(bytes(32)) == "whsec_" + "A" * 43 + "="


def test_the_receiver_of_the_documents_verifies() -> None:
    page = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)  # noqa: S102 - our own document
    at_s, body = int(SystemClock().now().timestamp()), b"{}"
    old, new = new_secret(bytes(32)), new_secret(b"x" * 32)
    made = headers([new, old], "msg_1", at_s, body)
    assert names["is_genuine"](old, made, body)
    assert names["is_genuine"](new, made, body)
    assert not names["is_genuine"](new, made, b"{ }")
    assert not names["is_genuine"](new, headers([new], "msg_1", at_s - 3_600, body), body)


def test_waits_grow_and_end_in_a_dead_letter() -> None:
    failed = Answer(500, "the receiver answers 500")
    waits = [outcome(failed, tries, 0.0) for tries in range(1, TRIES_MAX + 1)]
    assert waits == [*map(Again, WAITS_S), GivenUp()]
    assert outcome(failed, 1, 0.999) == Again(pytest.approx(6, abs=0.01))
    assert outcome(Answer(200), TRIES_MAX, 0.0) == Done()
    assert outcome(Answer(410, "gone"), 1, 0.0) == GivenUp(is_gone=True)


@pytest.mark.parametrize(
    ("status", "after_s", "wait_s"),
    [(429, 60.0, 60.0), (503, 1.0, 5.0), (429, 1e9, RETRY_AFTER_MAX_S), (500, 60.0, 5.0), (429, None, 5.0)],
)
def test_a_receiver_has_us_wait_within_a_bound(status: int, after_s: float | None, wait_s: float) -> None:
    assert outcome(Answer(status, "no", after_s), 1, 0.0) == Again(wait_s)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7.0), (" 7 ", 7.0), ("-1", None), ("٣", None), ("9" * 400, None), (None, None)],
)
def test_an_odd_retry_after_says_nothing(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text) == seconds


@pytest.mark.parametrize(
    ("url", "form", "why"),
    [
        ("https://hooks.example/a", "slack", None),
        ("http://10.1.2.3:8080/a", "standard", None),
        ("http://hooks.internal/a", "plain", None),
        ("http://hooks.example/a", "standard", "https"),
        ("https://192.168.0.1/", "standard", "is no public address"),
        ("https://localhost/", "standard", "is no public address"),
        ("https://[::ffff:169.254.169.254]/", "standard", "is no public address"),
        ("https://a:b@hooks.example/", "standard", "password"),
        ("https://hooks.example/\nx", "standard", "visible ASCII"),
        ("https://hooks.example:0/", "standard", "https://host/path"),
        ("https://hooks.example:99999/", "standard", "cannot be read"),
        ("file:///etc/passwd", "standard", "https://host/path"),
        ("mailto:ann@example.com", "mail", None),
        ("mailto:ann@example.com", "standard", "format mail"),
        ("https://hooks.example/", "mail", "mailto:"),
        ("mailto:ann@example.com\nBcc: all@example.com", "mail", "plain letters"),
        ("mailto:ann@example.com,bob@example.com", "mail", "plain letters"),
        ("mailto:ann", "mail", "plain letters"),
        ("mailto:@localhost", "mail", "plain letters"),
        ("mailto:a..b@example.com", "mail", "plain letters"),
    ],
)  # fmt: skip
def test_a_target_is_one_that_may_be_reached(url: str, form: str, why: str | None) -> None:
    fault = fault_of_target(url, form, INSIDE)
    assert (fault is None) == (why is None), fault
    assert why is None or why in str(fault)


def test_the_path_of_a_url_is_not_shown() -> None:
    assert place_of("https://hooks.example:8443/services/T0/B0/secret?x=1") == "https://hooks.example:8443"
    assert fault_of_target("http://10.1.2.3/", "standard", PUBLIC) is not None


@pytest.mark.parametrize(
    ("filters", "is_wanted"),
    [
        ({}, True),
        ({"types": ["run"]}, True),
        ({"types": ["run.failed", "group"]}, True),
        ({"types": ["run.completed"]}, False),
        ({"labels": ["a=1", "b=2"]}, True),
        ({"labels": ["a=1", "b=3"]}, False),
        ({"projects": ["default"], "kinds": ["probe"], "owners": ["ann", "bob"]}, True),
        ({"owners": ["eve"]}, False),
    ],
)
def test_every_filter_has_to_hold(filters: Mapping[str, Any], is_wanted: bool) -> None:
    found = of_end(run(labels={"a": "1", "b": "2"}), "ann", "https://fleet.example")
    assert found is not None
    stored = {"_id": "w", "since": EPOCH, "filters": filters}
    assert subscription_in(stored).wants(found) is is_wanted
    assert not subscription_in({**stored, "since": EPOCH + timedelta(seconds=1)}).wants(found)


def test_an_end_says_whose_fault_it_was_and_its_numbers() -> None:
    found = of_end(run(), "ann", "https://fleet.example")
    assert found is not None
    body = json.loads(found.body())
    assert body["type"] == "run.failed"
    assert body["data"]["error"] == {"code": "C", "message": "m", "stage": "s", "fault": "pod"}
    assert body["data"]["summary"] == {"loss": 0.5, "odd": None}
    assert body["data"]["url"] == "https://fleet.example/runs/01R"
    assert of_end(run(status="RUNNING"), None, "") is None


def test_a_body_has_a_bound_whatever_a_run_is_called() -> None:
    found = of_end(run(labels={str(each): "x" * 1_000 for each in range(100)}), "ann", "")
    assert found is not None
    assert len(found.body()) <= BODY_BYTES_MAX
    assert json.loads(found.body())["data"]["id"] == "01R"


def test_a_group_is_told_each_time_that_it_ends() -> None:
    def line(n: int, came_from: str, to: str) -> dict[str, Any]:
        return {"n": n, "from": came_from, "to": to, "at": EPOCH, "reason": None}

    journal = [line(2, "OPEN", "COMPLETED"), line(3, "COMPLETED", "COMPLETED"), line(4, "COMPLETED", "OPEN"),
               line(5, "OPEN", "CANCELED")]  # fmt: skip
    found = of_group({"_id": "g", "journal": journal, "revision": 5, "counts": {"x": 1}}, "")
    assert [(each.key, each.type) for each in found] == [
        ("group/g/2", "group.completed"), ("group/g/5", "group.canceled"),
    ]  # fmt: skip
    assert [each.data["counts"] for each in found] == [None, {"x": 1}]


def test_what_a_run_says_begins_no_header_and_pings_nobody() -> None:
    body = told(title="x\r\nBcc: all@example.com\u202e<!channel>", kind="probe", error={"code": "\x1b[31mC"})
    subject = subject_of(body)
    assert subject == "Run failed: probe x Bcc: all@example.com <!channel> ([31mC)"
    mail = message("fleet@example.com", "ann@example.com", "msg_1", f"{subject}\nX: y", text_of(body))
    assert mail["Subject"] == f"{subject} X: y"
    assert mail["Bcc"] is None
    assert mail["Message-ID"] == "<msg_1@example.com>"
    assert "<!channel>" not in json.loads(worded("slack", body).content)["text"]
    long = told(title="x", kind="probe", error={"message": "y" * 5_000, "fault": "run"})
    assert len(json.loads(worded("discord", long).content)["content"]) <= 2_000


def test_the_same_body_has_the_same_bytes() -> None:
    body = told(title="ä")
    assert worded("standard", body).content == body.encode()
    assert worded("standard", body) == worded("standard", body)
