"""Every block of the guides does what its page says, as it stands, in the order of the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import httpx
import pytest
from playwright._impl._driver import compute_driver_executable

DOCS: Final = Path(__file__).parents[2] / "docs"
BLOCK: Final = re.compile(r"^```(sh|python|js)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script_of(page: str, folder: Path) -> str:
    """Return the blocks as one script of a shell; those in other languages are files that it calls."""
    lines = ["set -eu"]
    for number, (language, code) in enumerate(BLOCK.findall(page)):
        if language == "sh":
            lines.append(code)
            continue
        program, ending = {"python": ("python3", "py"), "js": ('"$NODE"', "js")}[language]
        (folder / f"block-{number}.{ending}").write_text(code)
        lines.append(f"{program} block-{number}.{ending} >&2")
    return "\n".join(lines)


def printed_by(page: str, url: str, folder: Path) -> str:
    """Return what the blocks of a page print; each of them works."""
    node, _ = compute_driver_executable()  # that of the browser's driver: any machine with the tests has it
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "NODE": str(node),
        "CONTROL_PLANE_URL": url,
        "PODFLEET_API_KEY": "a-key-of-the-test",
    }
    script = script_of((DOCS / page).read_text(), folder)
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


WITH_CURL: Final = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")


@WITH_CURL
@pytest.mark.slow("every command of a page, one after the other")
def test_every_block_of_the_pod_guide_works_as_it_stands(keyed_url: str, tmp_path: Path) -> None:
    said = printed_by("pod-guide.md", keyed_url, tmp_path)
    assert "pod-7" in said, "why the run waits"
    assert said.endswith("QUEUED\n"), said


@WITH_CURL
@pytest.mark.slow("every command of a page, one after the other")
def test_every_block_of_the_guide_works_as_it_stands(keyed_url: str, tmp_path: Path) -> None:
    said = printed_by("events-guide.md", keyed_url, tmp_path)
    assert said.endswith("COMPLETED 11\n"), said
    run = json.loads((tmp_path / "run.json").read_text())
    log = httpx.get(
        f"{keyed_url}/api/runs/{run['id']}/events",
        params={"type": "ai.run.log"},
        headers={"Authorization": "Bearer a-key-of-the-test"},
    ).json()
    lines = [each["data"]["message"] for each in reversed(log["items"])]
    assert lines[:3] == ["the first line", "compressed", "in a batch"]
    assert lines[3:] == ["from Python", "from JavaScript", "from a shell"]
