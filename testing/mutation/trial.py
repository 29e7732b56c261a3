"""One module's trial: its mutants, one after another, before its tests, in a copy of the checkout."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from testing.bench.comparison import Absent, Setting
from testing.bench.peers.environments import environment, surroundings
from testing.mutation.mutants import Mutant
from testing.mutation.related_tests import FOLDERS, RelatedTests, rank

PINS: Final[Mapping[str, tuple[str, ...]]] = {"mutmut": ("mutmut==3.8.1",)}
RUNNER: Final = Path(__file__).with_name("runner.py")
BESIDE: Final = ("docs", "pyproject.toml", "constraints.txt")  # what tests read besides the packages
CLEAN_S: Final = 3600.0
SLOWER: Final = 3.0  # a mutant may take so many times as long as the clean run,
PATIENCE_S: Final = 30.0  # and this, of the processor's time:
BUSY: Final = 4.0  # others may leave it so little of that

Outcome = Literal["killed", "survived", "timed out"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant, and by which test."""

    mutant: Mutant
    outcome: Outcome
    by: str | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The test files of a module with the seconds that each took unmutated, and those that took too long."""

    seconds: Mapping[str, float]
    left_out: Sequence[str]
    clean_s: float


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a checkout, and the process that runs tests in it."""

    path: Path
    process: subprocess.Popen[str]

    def run(self, files: Iterable[str], timeout_s: float, cpu_s: int | None = None) -> dict[str, Any]:
        """Run test files until the first that fails; the tests of a mutant have a limit of processor time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"files": list(files), "timeout_s": timeout_s, "cpu_s": cpu_s, "is_clean": cpu_s is None}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the runner has ended"
        return dict(json.loads(answer))

    def assess(self, related: RelatedTests, below: Sequence[str], limit_s: float | None) -> Baseline:
        """Run the tests on the module as it is, without those elsewhere or that alone exceed the limit."""
        kept = [file for file in related.files if any(Path(file).is_relative_to(each) for each in below)]
        if limit_s is not None:
            kept = [file for file in kept if self.run([file], limit_s)["status"] is not None]
        left_out = [file for file in related.files if file not in kept]
        if not kept:
            sys.exit(f"mutation: no tests are left of {', '.join(left_out)}")
        clean = self.run(kept, CLEAN_S)
        if clean["status"] != 0:
            sys.exit(f"mutation: the tests do not pass on the module as it is:\n{clean['tail']}")
        seconds = {file: clean["found"]["seconds"].get(file, 0.0) for file in kept}
        quickest = sorted(kept, key=lambda file: (rank(file)[0], seconds[file]))
        return Baseline(
            seconds={file: seconds[file] for file in quickest}, left_out=left_out, clean_s=clean["seconds"]
        )

    def verdicts(self, module: str, mutants: Iterable[Mutant], baseline: Baseline) -> Iterator[Verdict]:
        """Try each mutant; the module stands as it was afterwards."""
        path = self.path / module
        original = path.read_text()
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            stale.unlink()  # else a mutant of the same second and size would not be read
        limit_s = SLOWER * baseline.clean_s + PATIENCE_S
        for mutant in mutants:
            path.write_text(mutant.source)
            try:
                result = self.run(baseline.seconds, BUSY * limit_s, math.ceil(limit_s))
            finally:
                path.write_text(original)
            outcome: Outcome = "killed"
            if result["status"] is None:
                outcome = "timed out"
            elif result["status"] == 0:
                outcome = "survived"
            yield Verdict(mutant, outcome, result["found"]["failed"], result["seconds"])


@contextmanager
def copied(root: Path) -> Iterator[Copy]:
    """Copy the packages of a checkout, and start what runs their tests; whatever they leave goes with it."""
    with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as home:
        copy, scratch, temporary = (Path(home, name) for name in ("copy", "scratch", "t"))
        for folder in (scratch, temporary):
            folder.mkdir()
        for name in (*FOLDERS, *BESIDE):
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(root / name, copy / name)
        environ = {**os.environ, "PYTHONPATH": str(copy), "TMPDIR": str(temporary)}
        check(copy, environ)
        with subprocess.Popen(
            [sys.executable, "-P", str(RUNNER), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=copy,
            env=environ,
            text=True,
        ) as process:
            yield Copy(copy, process)


def check(copy: Path, environ: Mapping[str, str]) -> None:
    """Fail where a process of the tests would load the packages from elsewhere than the copy."""
    names = ", ".join(FOLDERS[:-1])
    question = f"import {names}; print(*(path for each in ({names}) for path in each.__path__))"
    result = subprocess.run(
        [sys.executable, "-c", question], cwd="/", env=environ, capture_output=True, text=True, check=True
    )
    if result.stdout.split() != [str(copy / name) for name in FOLDERS[:-1]]:
        sys.exit(f"mutation: the packages are loaded from {result.stdout.strip()}")


def drawn(root: Path, module: str, count: int, seed: int) -> list[Mutant]:
    """Return the sample of a module's mutants, made by mutmut in an environment of its own."""
    setting = Setting(rounds=1, scratch=Path(), say=lambda text: print(text, file=sys.stderr))
    python = environment("mutmut", setting, PINS)
    if isinstance(python, Absent):
        sys.exit(f"mutation: {python.reason}")
    result = subprocess.run(
        [str(python), "-m", "testing.mutation.maker", str(root / module), module, str(count), str(seed)],
        env=surroundings(python, {}),
        stdout=subprocess.PIPE,
        check=True,
    )
    return [Mutant(**each) for each in json.loads(result.stdout)]
