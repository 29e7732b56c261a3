"""Measures by a load generator of others: a child of its own session, with a limit, that inherits nothing.

Law: it is ended when the limit is over, when the measurement is canceled, and with the process that started
it. What it writes is shown and kept without secrets, and read within bounds.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.files.open_beneath import read_beneath
from events.files.paths import RunPath
from events.runtime.clock import Clock
from events.runtime.errors import Canceled, PipelineError
from stages.engines.environment import described, mask_of, tool_environment
from stages.engines.following import LINES_MAX, Following
from stages.engines.load import genai_bench
from stages.engines.load.measurement import Measurement
from stages.engines.load.plan import Load, Target
from stages.engines.processes import end_session
from stages.engines.running import ServingLimits, own_environment, start

START_S: Final = 120.0  # beside the load: it loads a tokenizer before, and draws plots behind
END_S: Final = 30.0
PAUSE_S: Final = 0.1
LOG_BYTES_MAX: Final = 4 << 20  # of all measurements together
OUTPUT_BYTES_MAX: Final = 256 << 10  # that are kept of one
TAIL_CHARS: Final = 1_500
LIMITS: Final = ServingLimits(file_bytes=genai_bench.REPORT_BYTES_MAX)
# Its lines are broken at 80 columns otherwise, and its screen is drawn again and again.
PLAIN: Final = {"COLUMNS": "200", "ENABLE_UI": "false"}


@dataclass(slots=True, kw_only=True)
class Outside:
    """genai-bench on this pod; `log` has the output of all its measurements."""

    program: str
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    tokenizer: str
    clock: Clock
    say: Callable[[str], None]
    start_s: float = START_S
    runs: int = 0
    lines_left: int = LINES_MAX
    _never: threading.Event = field(default_factory=threading.Event)

    @property
    def log(self) -> Path:
        """The file with its output, without secrets."""
        return self.folder / "log.txt"

    def measure(self, target: Target, load: Load, *, canceled: Callable[[], bool]) -> Measurement:
        """Return the figures of a load in a closed loop.

        Raises `Canceled`, and `PipelineError` where it told none.
        """
        self.runs += 1
        folder = self.folder / f"{self.runs}"
        folder.mkdir()
        try:
            words = genai_bench.command(self.program, target, load, tokenizer=self.tokenizer, folder=folder)
        except ValueError as error:
            raise PipelineError("CONFIG", str(error)) from None
        begun_s = self.clock.monotonic_s()
        try:
            code = self._run([*words], folder, load, canceled)
            took_s = self.clock.monotonic_s() - begun_s
            tail = self._kept(folder, load)
            if code is None:
                late = f"{genai_bench.PROGRAM} was ended after {took_s:.0f} s"
                return _unfinished(load, late)
            return self._figures(folder, load, took_s, f"{genai_bench.PROGRAM} ended ({code}): {tail}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, words: list[str], folder: Path, load: Load, canceled: Callable[[], bool]) -> int | None:
        """Run it to its end, and return its status; None where it had to be ended."""
        until_s = self.clock.monotonic_s() + load.limit_s + self.start_s
        environment = {**self.environment, "HOME": str(self.folder), "TMPDIR": str(folder)}
        process, output = start(words, folder, environment, LIMITS, None)
        following = Following(
            name=genai_bench.PROGRAM,
            say=self.say,
            mask=mask_of(self.environment),
            clock=self.clock,
            lines_left=self.lines_left,
        )
        assert process.stdin is not None
        try:
            while (code := process.poll()) is None and self.clock.monotonic_s() < until_s:
                if canceled():
                    raise Canceled("the measurement was asked to stop")
                following.look(output)
                self.clock.wait(self._never, PAUSE_S)
            return code
        finally:
            following.look(output, is_last=True)
            self.lines_left = following.lines_left
            process.stdin.close()  # and so the guard ends the session, if this does not
            left = end_session(process.pid, END_S)
            process.wait()
            output.close()
            if left:
                raise PipelineError("BENCHMARK_FAILED", f"{genai_bench.PROGRAM} was killed, and did not end")

    def _kept(self, folder: Path, load: Load) -> str:
        """Add its output to the log, and return the end of it."""
        mask = mask_of(self.environment)
        try:
            with read_beneath(folder, RunPath("engine.log")) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - OUTPUT_BYTES_MAX))
                text = mask.text(file.read(OUTPUT_BYTES_MAX).decode(errors="replace").replace("\0", ""))
        except OSError as error:
            text = f"its output was taken away: {error.strerror}"
        with self.log.open("a", encoding="utf-8", newline="") as log:
            log.write(f"{load.name}\n{text}\n"[: max(0, LOG_BYTES_MAX - log.tell())])
        return text.strip()[-TAIL_CHARS:] or "it wrote nothing"

    def _figures(self, folder: Path, load: Load, took_s: float, ended: str) -> Measurement:
        results = folder / genai_bench.RESULTS
        names = [*(each for form in genai_bench.REPORTS for each in results.glob(form))]
        names = names or [*results.glob(genai_bench.FAILED)]
        if len(names) != 1:
            raise PipelineError("BENCHMARK_FAILED", f"there is no result of {load.name}; {ended}")
        try:
            with read_beneath(results, RunPath(names[0].name)) as file:
                report = file.read(genai_bench.REPORT_BYTES_MAX + 1)
            if len(report) > genai_bench.REPORT_BYTES_MAX:
                raise ValueError(f"it has more than {genai_bench.REPORT_BYTES_MAX:,} bytes")
            found = genai_bench.figures(report, load, took_s)
        except (OSError, ValueError) as error:
            said = f"the result of {load.name} by {genai_bench.PROGRAM} cannot be believed: {error}"
            raise PipelineError("BENCHMARK_FAILED", said) from None
        mask = mask_of(self.environment)
        found.said = {name: mask.text(said) for name, said in found.said.items()}
        return found


def found_outside(
    variables: Mapping[str, str],
    *,
    tokenizer: str,
    is_offline: bool,
    folder: Path,
    clock: Clock,
    say: Callable[[str], None],
) -> Outside:
    """Return genai-bench where this pod has it, by the variables of a run; `folder` is made.

    `tokenizer` is an id of the hub; without one a word is a token. Raises `PipelineError` NOT_AVAILABLE.
    """
    folder.mkdir()
    given = tool_environment(variables, is_offline=is_offline)
    environment = own_environment(folder, given) | PLAIN
    program = shutil.which(genai_bench.PROGRAM, path=environment["PATH"])
    if program is None:
        said = (
            f"this pod has no program {genai_bench.PROGRAM!r}: {genai_bench.INSTALL}, or take the own client"
        )
        raise PipelineError("NOT_AVAILABLE", said, retryable=True)
    named = tokenizer or genai_bench.write_tokenizer(folder / "words")
    say(f"{genai_bench.PROGRAM} has {described(given)}")
    return Outside(
        program=program, environment=environment, folder=folder, tokenizer=named, clock=clock, say=say
    )


def _unfinished(load: Load, said: str) -> Measurement:
    """Return the figures of a load of which nothing is known: none of its requests counts as answered."""
    found = Measurement(limits=load.limits, by=genai_bench.PROGRAM, requests=load.requests)
    found.failures["unfinished"] = load.requests
    found.said["unfinished"] = said
    return found
