"""The Containerfiles of deploy/, executed in a clean root file system."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.locked import ROOT
from scripts.try_containerfile import Image, tried

SUITE = "bookworm"
INCLUDED = "python3,python3-venv,ca-certificates"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"

pytestmark = [
    pytest.mark.long("a base is made, and all packages are installed in it"),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="needs root and debootstrap"
    ),
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", SUITE, str(root)],
        check=True,
        capture_output=True,
    )
    return root


def executed(name: str, base: Path, **arguments: str) -> Image:
    return tried(ROOT / "deploy" / name, base, {"PIP_CERT": BUNDLE, **arguments})


def test_the_image_of_a_pod_has_a_worker_that_is_not_root(base: Path) -> None:
    image = executed("Containerfile.pod", base, EXTRAS="pod")
    assert image.user == "podfleet"
    image.run([*image.entrypoint, "--help"])
    image.run(["sh", "-c", "touch /var/lib/podfleet/x && command -v bwrap && ! touch /srv/podfleet/x"])


def test_the_image_of_a_control_plane_says_what_it_lacks(base: Path) -> None:
    image = executed("Containerfile.control-plane", base)
    assert image.user == "podfleet"
    with pytest.raises(subprocess.CalledProcessError) as ended:  # a configuration that cannot work
        image.run([*image.entrypoint, *image.command])
    assert ended.value.returncode == 2
    image.run(["sh", "-c", "! touch /srv/podfleet/x"])
