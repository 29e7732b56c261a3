"""The installation by hashes, from packages made here."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts import locked

ROOT = Path(locked.__file__).parents[1]


def digest(file: Path) -> str:
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


@dataclass
class Shelf:
    """A folder of wheels, a folder to install into, and a lock."""

    folder: Path
    lock: str = ""

    def put(self, name: str, *requires: str, build: str = "") -> Path:
        """Make a wheel, and lock it, if it is no build."""
        version = f"1.0{build}"
        file = self.folder / f"{name}-{version}-py3-none-any.whl"
        about = f"{name}-{version}.dist-info"
        needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
        with zipfile.ZipFile(file, "w") as wheel:
            wheel.writestr(
                f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
            )
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
        if not build:
            self.lock += f"{name}==1.0 \\\n    --hash={digest(file)}\n"
        return file

    def install(self, *lines: str, keep: str = "", **builds: str) -> tuple[str, set[str]]:
        """Install and return what was said, and what is there."""
        target = self.folder / "target"
        table = {f"{name}==1.0+cpu": [value] for name, value in builds.items()}
        program = (
            "import sys; from scripts.locked import *\n"
            f"install_all({lines!r}, read_lock(sys.argv[1]), read_builds({table}), frozenset({{{keep!r}}}))"
        )
        answer = subprocess.run(
            [sys.executable, "-c", program, self.lock],
            env={
                "PYTHONPATH": f"{target}:{ROOT}",
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self.folder),
                "PIP_TARGET": str(target),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert (answer.returncode == 0) == (not answer.stderr), answer.stderr
        return answer.stderr, {each.name.partition("-")[0] for each in target.glob("*.dist-info")}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_what_is_asked_for_comes_with_all_that_it_needs_here(shelf: Shelf) -> None:
    shelf.put("top", "middle[more]>=1", "elsewhere; sys_platform == 'win32'")
    shelf.put("middle", "bottom; extra == 'more'", "other; extra == 'rest'")
    shelf.put("bottom")
    assert shelf.install("top") == ("", {"top", "middle", "bottom"})


def test_a_file_with_another_hash_is_not_installed(shelf: Shelf) -> None:
    shelf.put("top", "bottom")
    with zipfile.ZipFile(shelf.put("bottom"), "a") as wheel:
        wheel.writestr("bottom_too.py", "print('not what was locked')")
    said, there = shelf.install("top")
    assert "DO NOT MATCH THE HASHES" in said
    assert there == {"top"}


def test_a_pin_without_a_hash_is_not_installed(shelf: Shelf) -> None:
    shelf.put("top")
    shelf.lock = "top==1.0\n"
    said, there = shelf.install("top")
    assert "Hashes are required" in said
    assert there == set()


def test_what_the_lock_has_not_is_named(shelf: Shelf) -> None:
    shelf.put("top", "Not.Locked")
    said, _ = shelf.install("top")
    assert "Not.Locked is not in constraints.txt" in said


def test_a_version_that_does_not_fit_is_named(shelf: Shelf) -> None:
    shelf.put("top", "bottom>=2")
    shelf.put("bottom")
    said, _ = shelf.install("top")
    assert "bottom>=2 is asked for, and 1.0 is what there is" in said


def test_what_the_image_has_is_kept_where_it_serves(shelf: Shelf) -> None:
    shelf.put("top", "pytest")  # the interpreter that runs this has it; the lock here does not
    assert shelf.install("top", keep="pytest") == ("", {"top"})
    shelf.put("next", "pytest<=1")
    shelf.put("pytest")
    assert shelf.install("next", keep="pytest") == ("", {"top", "next", "pytest"})


def test_a_build_goes_before_the_locked_files_where_there_is_one_and_by_its_hash(shelf: Shelf) -> None:
    shelf.put("top", "bottom")
    shelf.put("bottom")
    assert shelf.install("top", top=digest(shelf.put("top", build="+gpu"))) == ("", {"top", "bottom"})
    shelf.lock = shelf.lock.replace("bottom==1.0", "bottom==0.9")
    build = shelf.put("bottom", build="+cpu")
    assert "DO NOT MATCH" in shelf.install("bottom", bottom="sha256:" + 64 * "0")[0]
    assert shelf.install("bottom", bottom=digest(build))[0] == ""
