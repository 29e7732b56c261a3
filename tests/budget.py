"""The suite's budget of time: what took longest, what each group took, and a failure where a test grew.

Law: a test that takes more than `LIMIT_S` says why, by the mark `slow` or `long`. A machine that does other
work beside the tests is slower for all of them, so the limit grows with the whole: a test is held against
its own run. A part of the suite has no whole to be held against, so only `--budget` fails a run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

import pytest

LIMIT_S: Final = 10.0
WHOLE_S: Final = 600.0  # all tests of `make test`, were each alone; four workers on two cores take 1,300
SHOWN: Final = 20


def group_of(node_id: str) -> str:
    """Return the group of tests that share a worker, else the folder of the test."""
    name, _, group = node_id.rpartition("@")
    if name and "]" not in group:
        return group
    return str(PurePath(node_id.partition("::")[0]).parent)


def limit_s(whole_s: float, quiet_s: float = LIMIT_S) -> float:
    """Return how long an unmarked test may take in a run whose tests took `whole_s` seconds together."""
    return quiet_s * max(1.0, whole_s / WHOLE_S)


@dataclass(eq=False)  # plugins are kept in sets
class Budget:
    """Hears how long each test took; it lives in the process that reports to people."""

    is_held: bool
    quiet_s: float = LIMIT_S
    seconds: Counter[str] = field(default_factory=Counter)
    marked: set[str] = field(default_factory=set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self.seconds[report.nodeid] += report.duration
        if {"slow", "long"} & report.keywords.keys():
            self.marked.add(report.nodeid)

    def grown(self) -> dict[str, float]:
        """Return the tests that are over the limit and do not say why."""
        limit = limit_s(self.seconds.total(), self.quiet_s)
        return {
            name: seconds
            for name, seconds in self.seconds.items()
            if seconds > limit and name not in self.marked
        }

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that was good but for its time."""
        if self.is_held and self.grown() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print where the time went."""
        write = terminalreporter.write_line
        groups = Counter[str]()
        for name, seconds in self.seconds.items():
            groups[group_of(name)] += seconds
        terminalreporter.section(f"seconds: {self.seconds.total():.0f} in all")
        for group, seconds in groups.most_common(SHOWN * 2):
            write(f"{seconds:8.1f}  {group}")
        write(f"the slowest {SHOWN} tests:")
        for name, seconds in self.seconds.most_common(SHOWN):
            write(f"{seconds:8.1f}  {name}")
        for name, seconds in self.grown().items():
            limit = limit_s(self.seconds.total(), self.quiet_s)
            terminalreporter.write_line(
                f"TOO SLOW: {name} took {seconds:.1f} s; {limit:.1f} s is the limit of a test without the "
                "mark slow: make it cheaper, or mark it with its reason (docs/testing.md)",
                red=True,
            )
