"""Runs one stand-alone script in the sandbox, with its files, and reads the report that it left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from secrets import token_hex
from typing import Any, Final, Literal

from events.files.open_beneath import read_beneath
from events.files.paths import RunPath
from events.files.tree_removal import remove_tree
from stages.isolation.sandbox import Ended, Job, JobLimits
from stages.kinds.benchmark.suites.item import Score, Scoring, Verdict

REPORT_BYTES_MAX: Final = 64 << 20
REPORT: Final = RunPath("report.json")
LOSSES_MAX: Final = 2
LOST: Final = frozenset({"not_started", "lost"})  # ends that are the machine's doing
WALL_MAX_S: Final = 600.0
START_S: Final = 20.0  # for a script to begin, on a busy machine

Script = Literal["runner.py", "examiner.py"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """What a solution may use for one test; `wall_s` exceeds its processor time, for a busy machine."""

    test_s: float = 10.0
    wall_s: float = 30.0
    memory_mib: int = 1_024
    output_bytes: int = 4 << 20
    processes: int = 32
    disk_mib: int = 64


class NotRun(Exception):
    """The machine did not run a program, again and again; the text says why."""


class Ran(Exception):
    """A program ended in a way that is no answer: its verdict, and why."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(why)
        self.verdict: Verdict = verdict
        self.why = why

    def score(self, parsed: str) -> Score:
        """Return the score of an answer whose code ended so."""
        return Score(outcome="wrong", verdict=self.verdict, parsed=parsed, why=self.why)


def report_of(
    scoring: Scoring, script: Script, job: Mapping[str, Any], sources: Mapping[str, str], limits: CodeLimits
) -> Mapping[str, Any]:
    """Return what a script reported. Raises `Ran` for a program that left no report, and `NotRun`."""
    told = ""
    for _ in range(LOSSES_MAX):
        ended, report = _once(scoring, script, job, sources, limits)
        if ended.how not in LOST:
            if report is None or ended.how != "finished":
                raise Ran(_verdict(ended), _words(ended))
            return report
        told = ended.message
    raise NotRun(f"this pod lost a program {LOSSES_MAX} times: {told}")


def _once(
    scoring: Scoring, script: Script, job: Mapping[str, Any], sources: Mapping[str, str], limits: CodeLimits
) -> tuple[Ended, Mapping[str, Any] | None]:
    folder = scoring.folder / token_hex(8)
    folder.mkdir(parents=True)
    try:
        ours = files("stages.kinds.benchmark.suites.code")
        written = {name: ours.joinpath(name).read_text(encoding="utf-8") for name in (script, "values.py")}
        written |= {"job.json": json.dumps(job), **sources}
        for name, text in written.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
        size_mib = sum(map(len, written.values())) * 2 >> 20
        tests = max(1, len(job.get("tests", ()))) if script == "runner.py" else 1
        bounds = JobLimits(
            wall_s=min(WALL_MAX_S, START_S + tests * limits.wall_s),
            cpu_s=START_S + tests * limits.test_s,
            memory_mib=limits.memory_mib + 256 + 4 * size_mib,
            processes=limits.processes,
            output_bytes=1 << 20,
            disk_mib=limits.disk_mib + 2 * size_mib + (REPORT_BYTES_MAX >> 20),
        )
        with scoring.slots:
            ended = scoring.sandbox.run(Job(folder=folder, script=script, limits=bounds))
        return ended, None if ended.how in LOST else _report(scoring, folder.name)
    finally:
        remove_tree(folder)


def _report(scoring: Scoring, name: str) -> Mapping[str, Any] | None:
    """Return the report in a folder; None where there is none, or no sound one."""
    try:
        with read_beneath(scoring.folder / name, REPORT) as file:
            content = file.read(REPORT_BYTES_MAX + 1)
        told = json.loads(content) if len(content) <= REPORT_BYTES_MAX else None
    except (OSError, ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _verdict(ended: Ended) -> Verdict:
    if ended.how == "timed_out":
        return "timeout"
    return "memory" if ended.how == "out_of_memory" else "unsafe"


def _words(ended: Ended) -> str:
    if ended.how == "finished":
        return "the process that runs it left no sound report: the program tampered with it"
    last = ended.log_tail.strip().rpartition("\n")[2]
    return f"{ended.message or ended.how.replace('_', ' ')}{f': {last}' if last else ''}"[:500]
