"""The program that runs tests again and again: a process that has loaded pytest forks for each order.

It is started by its path in the copy of a checkout, whose modules it never loads itself, and answers each
order, a line of JSON, by another. What is left of a fork's processes is ended with it.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

OPTIONS: Final = ("-x", "-q", "--tb=line", "-p", "no:randomly", "-p", "no:cacheprovider")
# what most tests load besides pytest's plugins
LOADED: Final = ("fastapi.testclient", "httpx", "msgspec", "pydantic", "pymongo", "structlog")
TAIL_CHARACTERS: Final = 2000
OVER: Final = (None, -signal.SIGXCPU, -signal.SIGKILL)  # what a process is ended by, by us or by the system


class Watch:
    """The part of pytest that notes how long each file takes, and the first test that fails."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.failed: str | None = None

    def pytest_sessionstart(self) -> None:
        """Let Hypothesis end at the first example that fails, and blame no test for a busy machine."""
        hypothesis = importlib.import_module("hypothesis")  # pytest wants to load it first
        settings, phase = hypothesis.settings, hypothesis.Phase
        phases = [each for each in phase if each not in (phase.shrink, phase.explain)]
        settings.register_profile(
            "mutation",
            settings.default,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=[hypothesis.HealthCheck.too_slow],
        )
        settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a phase of a test."""
        file = report.nodeid.partition("::")[0]
        self.seconds[file] = self.seconds.get(file, 0.0) + report.duration
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be loaded."""
        if report.failed:
            self.failed = self.failed or report.nodeid


def test(files: list[str], log: Path, found: Path, cpu_s: int | None) -> None:
    """Run the test files; the process ends with pytest's exit status."""
    os.setsid()
    if cpu_s is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    watch = Watch()
    status = pytest.main([*OPTIONS, *files], plugins=[watch])
    found.write_text(json.dumps({"seconds": watch.seconds, "failed": watch.failed}))
    sys.stdout.flush()
    os._exit(status)


def answer(order: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Run one order; its status is none where its time was over, the clock's or the processor's."""
    sys.dont_write_bytecode = not order["is_clean"]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "" if order["is_clean"] else "1"
    log, found = scratch / "log", scratch / "found"
    found.unlink(missing_ok=True)
    begun_s = time.monotonic()
    arguments = (order["files"], log, found, order["cpu_s"])
    process = multiprocessing.get_context("fork").Process(target=test, args=arguments)
    process.start()
    assert process.pid is not None
    process.join(order["timeout_s"])
    status = None if process.exitcode in OVER else process.exitcode
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return {
        "status": status,
        "seconds": time.monotonic() - begun_s,
        "found": json.loads(found.read_text()) if found.exists() else {"seconds": {}, "failed": None},
        "tail": log.read_text(errors="replace")[-TAIL_CHARACTERS:] if log.exists() else "",
    }


def main() -> None:
    """Load pytest with its plugins by a run of no test, and answer orders until there are no more."""
    scratch = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    empty = scratch / "empty"
    empty.mkdir()
    pytest.main(["--collect-only", "-q", "-c", "pyproject.toml", *OPTIONS, str(empty)])
    for name in LOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line), scratch)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
