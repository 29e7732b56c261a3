"""Whose fault it is that the kernel ended a process for want of memory: the group's, or the machine's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from stages.adapters.sandbox.control_group import ControlGroup

V1: Final = {"memory.oom_control": "under_oom 0\noom_kill 1\n", "memory.limit_in_bytes": "1000"}


@pytest.mark.parametrize(
    ("files", "is_own", "is_of_machine"),
    [
        ({"memory.events": "max 7\noom 1\noom_kill 1\n"}, True, False),
        ({"memory.events": "max 0\noom 0\noom_kill 1\n"}, False, True),
        ({"memory.events": "max 7\noom 1\noom_kill 0\n"}, False, False),
        ({**V1, "memory.max_usage_in_bytes": "1000"}, True, False),
        ({**V1, "memory.max_usage_in_bytes": "899"}, False, True),
        (
            {**V1, "memory.memsw.limit_in_bytes": "2000", "memory.memsw.max_usage_in_bytes": "1999"},
            True,
            False,
        ),
        ({**V1, "memory.max_usage_in_bytes": "what"}, False, True),
        ({"memory.events": "oom 0\noom_kill 1\n", "memory.max": "9", "memory.peak": "9"}, True, False),
        ({}, False, False),
    ],
)
def test_a_group_below_its_limit_is_not_blamed_for_what_the_machine_did(
    tmp_path: Path, files: Mapping[str, str], is_own: bool, is_of_machine: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    group = ControlGroup((tmp_path,))
    assert (group.memory_ran_out(), group.machine_ran_out()) == (is_own, is_of_machine)
