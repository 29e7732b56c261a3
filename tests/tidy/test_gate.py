"""The gate itself: groups stay on one worker, and a test that grew is a failure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.budget import LIMIT_S, WHOLE_S, Budget, group_of, limit_s

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run tests, given by file name, in a process of their own, as the gate runs its own."""

    def run(*options: str, **files: str) -> subprocess.CompletedProcess[str]:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(dedent(text))
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "xdist", *options]
        return subprocess.run(
            [*command, f"--rootdir={tmp_path}", str(tmp_path)],
            cwd=ROOT, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    return run


def test_the_tests_of_a_group_stay_on_one_worker(run: Run, tmp_path: Path) -> None:
    """pytest-xdist says nothing where it groups nothing, so somebody has to look."""
    file = """
        import os
        from pathlib import Path
        import pytest

        pytestmark = pytest.mark.xdist_group("together")

        @pytest.mark.parametrize("number", range(8))
        def test_one(number):
            Path(__file__).with_name(f"{os.environ['PYTEST_XDIST_WORKER']}.worker").touch()
        """
    answer = run("-n", "2", "--dist", "loadgroup", test_one=file, test_other=file)
    assert "16 passed" in answer.stdout, answer.stdout + answer.stderr
    assert len(list(tmp_path.glob("*.worker"))) == 1


BUDGETED = """
    import pytest
    from tests.budget import Budget

    def pytest_configure(config):
        for name in ("slow", "long"):
            config.addinivalue_line("markers", name + "(reason): as in the suite")
        config.pluginmanager.register(Budget(is_held={is_held}, quiet_s={limit_s}))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item):
        report = yield
        report.duration = 3.0 if item.name == "test_that_waits" else 0.0  # whatever else the machine does
        return report
    """


@pytest.mark.parametrize(
    ("mark", "limit_s", "is_held", "is_told", "status"),
    [
        ("", 1.0, True, True, 1),
        ("", 1.0, False, True, 0),
        ("@pytest.mark.slow('it waits')", 1.0, True, False, 0),
        ("@pytest.mark.long('it waits')", 1.0, True, False, 0),
        ("", 20.0, True, False, 0),
    ],
    ids=["grown", "a part", "slow", "long", "short"],
)
def test_a_test_over_the_limit_fails_the_gate_unless_it_says_why(
    run: Run, mark: str, limit_s: float, is_held: bool, is_told: bool, status: int
) -> None:
    file = f"""
        import pytest

        {mark}
        def test_that_waits():
            pass

        def test_that_does_not():
            pass
        """
    answer = run(conftest=BUDGETED.format(limit_s=limit_s, is_held=is_held), test_file=file)
    assert "2 passed" in answer.stdout, answer.stdout + answer.stderr
    assert answer.returncode == status, answer.stdout
    assert ("TOO SLOW: test_file.py::test_that_waits" in answer.stdout) == is_told
    assert "the slowest 20 tests:" in answer.stdout


def test_a_slow_run_excuses_what_is_slow_in_it() -> None:
    assert limit_s(0.0) == limit_s(WHOLE_S) == LIMIT_S
    assert limit_s(3 * WHOLE_S) == 3 * LIMIT_S
    budget = Budget(is_held=True)
    budget.seconds.update({"a": LIMIT_S + 1, "rest": 3 * WHOLE_S})
    assert budget.grown().keys() == {"rest"}


def test_a_failing_run_stays_failed_and_a_group_has_a_name(run: Run) -> None:
    answer = run(
        conftest=BUDGETED.format(limit_s=20.0, is_held=True), test_file="def test_no():\n    assert False"
    )
    assert answer.returncode == 1
    assert group_of("tests/a/test_b.py::test_c@together") == "together"
    assert group_of("tests/a/test_b.py::test_c[x@y]") == "tests/a"
