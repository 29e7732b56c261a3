"""What `make` says on a machine where the setup cannot work."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "dirname", "cksum", "cat", "id", "grep")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the setup alone, and a PATH with nothing but the simplest tools."""
    for name in ("pyproject.toml", "constraints.txt", "scripts/setup.sh", "scripts/locked.py"):
        target = tmp_path / "checkout" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    return tmp_path / "checkout"


def _setup(checkout: Path, what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / "scripts/setup.sh"), what],
        env={"PATH": str(checkout.parent / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )


def _python(checkout: Path, script: str) -> None:
    path = checkout.parent / "bin" / "python3"
    path.write_text(f"#!/usr/bin/env bash\n{script}\n")
    path.chmod(0o755)


def test_no_python_at_all_is_said_with_what_is_needed(checkout: Path) -> None:
    answer = _setup(checkout, "demo")
    assert answer.returncode == 1
    assert "Python 3.11 or newer is needed, and python3 is missing" in answer.stderr


def test_a_python_that_is_too_old_is_named_with_its_version(checkout: Path) -> None:
    _python(checkout, '[[ $1 == --version ]] && echo "Python 3.9.2" || exit 1')
    answer = _setup(checkout, "test")
    assert answer.returncode == 1
    assert "Python 3.11 or newer is needed, and python3 is Python 3.9.2" in answer.stderr
    assert not (checkout / ".venv").exists()


def test_a_missing_venv_module_is_said_with_the_command_that_installs_it(checkout: Path) -> None:
    _python(checkout, 'case $1 in --version) echo "Python 3.11.2" ;; -m) exit 1 ;; esac')
    answer = _setup(checkout, "demo")
    assert answer.returncode == 1
    assert "apt-get install python3-venv" in answer.stderr


def test_a_missing_browser_is_said_with_the_command_that_installs_it(checkout: Path) -> None:
    answer = _setup(checkout, "browser")
    assert answer.returncode == 1
    assert "apt-get install -y --no-install-recommends chromium" in answer.stderr


def test_an_unknown_purpose_is_refused(checkout: Path) -> None:
    assert (
        "demo, demo-benchmark, demo-tune, demo-race, test or browser" in _setup(checkout, "everything").stderr
    )
