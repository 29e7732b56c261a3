"""What a program says by `podfleet.run`, as the run reads it."""

from __future__ import annotations

from podfleet import run
from stages.kinds.job import messages


def test_the_longest_line_that_a_program_writes_is_read() -> None:
    assert run.LINE_BYTES_MAX == messages.LINE_BYTES_MAX
