"""What `podfleet doctor` says of the settings of a worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from podfleet.commands.maintenance.doctor import _clock, engines, isolation


@pytest.mark.parametrize(
    ("value", "state", "says"),
    [
        (None, "ok", "strict"),
        ("strict", "ok", "strict"),
        ("filter", "note", "filter, a step down from strict"),
        ("best", "note", "best, a step down from strict"),
        ("Strict", "failed", "PODFLEET_ISOLATION is 'Strict'"),
    ],
)
def test_the_isolation_of_workers_is_told(value: str | None, state: str, says: str) -> None:
    (found,) = isolation({} if value is None else {"PODFLEET_ISOLATION": value})
    assert (found.state, found.says.partition(";")[0]) == (state, says)


@pytest.mark.parametrize(
    ("there_s", "took_s", "says"),
    [
        (0, 0, "within seconds of the control plane's"),
        (30, 60, "within seconds of the control plane's"),
        (-20, 10, "20 s ahead of the control plane's"),
        (20, 10, "10 s behind the control plane's"),
    ],
)
def test_a_slow_answer_is_no_wrong_clock(there_s: float, took_s: float, says: str) -> None:
    asked_at = datetime(2026, 1, 1, tzinfo=UTC)
    date = format_datetime(asked_at + timedelta(seconds=there_s), usegmt=True)
    (found,) = _clock(date, asked_at, asked_at + timedelta(seconds=took_s))
    assert found.says == says


def test_the_variables_of_engines_are_told_without_their_values() -> None:
    (fine,) = engines({"HF_TOKEN": "hf_abcdefghijklmnop", "HF_HUB_OFFLINE": "1", "HF_HOME": ""})
    assert (fine.state, fine.says) == ("ok", "variables of engines: HF_TOKEN, HF_HUB_OFFLINE")
    (odd,) = engines({"HTTPS_PROXY": "nobody knows", "HF_TOKEN": "hf_abcdefghijklmnop"})
    assert (odd.state, odd.says) == ("note", "HTTPS_PROXY is no address of a proxy")
    assert odd.then.startswith("write http://USER:PASSWORD@HOST:PORT")
