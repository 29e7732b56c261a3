"""One trace from a submission to its events."""

from __future__ import annotations

import re

import pytest

from events.text.trace import traceparent_of

THEIRS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_work_in_a_trace_is_a_span_of_its_own_in_it() -> None:
    run = traceparent_of(THEIRS, "R1")
    attempt = traceparent_of(run, "R1/a1")
    assert _trace_of(run) == _trace_of(attempt) == _trace_of(THEIRS)
    assert len({THEIRS, run, attempt, traceparent_of(run, "R1/a2")}) == 4
    assert traceparent_of(THEIRS, "R1") == run, "asked again it is the same"


def test_the_flags_of_the_submitter_are_kept() -> None:
    assert traceparent_of(THEIRS[:-2] + "00", "R1").endswith("-00")


@pytest.mark.parametrize(
    "header",
    [None, "", "nonsense", THEIRS.upper(), f"ff{THEIRS[2:]}", f"00-{'0' * 32}-00f067aa0ba902b7-01",
     f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", THEIRS + "\n"],
)  # fmt: skip
def test_what_is_no_trace_begins_one(header: str | None) -> None:
    made = traceparent_of(header, "R1")
    assert made == traceparent_of(None, "R1")
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", made)
    assert _trace_of(made) != _trace_of(traceparent_of(None, "R2"))


def _trace_of(traceparent: str) -> str:
    return traceparent.split("-")[1]
