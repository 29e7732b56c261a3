"""Every block of docs/backup.md does what the page says, as it stands, in the order of the page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.integration.test_events_guide import script_of
from tests.servers import S3Server

pytestmark = pytest.mark.slow("real servers and processes")

PAGE: Final = Path(__file__).parents[2] / "docs/backup.md"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed here")
@pytest.mark.slow("every command of a page, one after the other")
def test_every_block_of_the_guide_works_as_it_stands(
    emptied_url: str, s3: S3Server, memory_path: Path
) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "MONGODB_URL": emptied_url,
        **s3.environment,
    }
    script = script_of(PAGE.read_text(), memory_path)
    done = subprocess.run(
        ["bash", "-c", script], cwd=memory_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (memory_path / "backups/fleet/manifest.json").exists()
    assert (memory_path / "backups/encrypted/manifest.sealed").exists()
    assert (memory_path / "restored").is_dir()
    assert not (memory_path / "drill").exists()
