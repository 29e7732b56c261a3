"""The installation by hashes, from packages made here."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import subprocess
import sysconfig
import tarfile
import venv
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
    """A folder of wheels, an environment to install into, which sees this one, and a lock."""

    folder: Path
    lock: str = ""

    def __post_init__(self) -> None:
        venv.create(self.target, symlinks=True)
        (self.packages / "this.pth").write_text(sysconfig.get_path("purelib"))

    @property
    def target(self) -> Path:
        return self.folder / "target"

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.target)}))

    def run(self, program: str, *arguments: str, **told: str) -> subprocess.CompletedProcess[str]:
        """Run a program in that environment, with what pip is told here."""
        return subprocess.run(
            [
                self.target / "bin" / "python",
                "-c",
                f"import sys; from scripts.locked import *; {program}",
                *arguments,
            ],
            env={
                "PYTHONPATH": str(ROOT),
                "XDG_CACHE_HOME": str(self.folder / "cache"),
                "UV_CACHE_DIR": str(self.folder / "cache" / "uv"),  # without HOME it would lie where we are
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self.folder),
                **told,
            },
            capture_output=True,
            text=True,
            check=False,
        )

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

    def put_source(self, name: str) -> None:
        """Make a source distribution, and lock it."""
        file = self.folder / f"{name}-1.0.tar.gz"
        files = {
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            "setup.py": f"import setuptools; setuptools.setup(name={name!r}, version='1.0', py_modules=[])",
        }
        with tarfile.open(file, "w:gz") as archive:
            for path, text in files.items():
                about = tarfile.TarInfo(f"{name}-1.0/{path}")
                about.size = len(text)
                archive.addfile(about, io.BytesIO(text.encode()))
        self.lock += f"{name}==1.0 \\\n    --hash={digest(file)}\n"

    def install(self, *lines: str, keep: str = "", **builds: str) -> tuple[str, set[str]]:
        """Install and return what was said, and what is there."""
        table = {f"{name}==1.0+cpu": [value] for name, value in builds.items()}
        program = (
            f"install_all({lines!r}, read_lock(sys.argv[1]), read_builds({table}), frozenset({{{keep!r}}}))"
        )
        answer = self.run(program, self.lock)
        assert (answer.returncode == 0) == (not answer.stderr), answer.stderr
        return answer.stderr, {each.name.partition("-")[0] for each in self.packages.glob("*.dist-info")}


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
    output, there = shelf.install("top")
    assert "Hash mismatch for `bottom==1.0`" in output
    assert there == {"top"}


def test_a_pin_without_a_hash_is_not_installed(shelf: Shelf) -> None:
    shelf.put("top")
    shelf.lock = "top==1.0\n"
    output, there = shelf.install("top")
    assert "all requirements must have a hash" in output
    assert there == set()


def test_no_source_is_built_but_the_one_that_has_no_wheels(shelf: Shelf) -> None:
    shelf.put_source("top")
    output, there = shelf.install("top")
    assert "building from source is disabled" in " ".join(output.split())
    assert there == set()
    shelf.put_source(locked.SOURCES)
    assert shelf.install(locked.SOURCES) == ("", {locked.SOURCES.replace("-", "_")})


def test_the_lock_has_what_installs_the_rest() -> None:
    lock = locked.read_lock(locked.LOCK.read_text())
    assert {locked.INSTALLER, locked.BACK_END_OF_SOURCES} <= lock.keys()


def test_uv_looks_where_pip_is_told_to_look(shelf: Shelf, tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://a.example/simple\ncert = /all.pem\n"
        "[install]\nindex-url = https://b.example/simple\nextra-index-url =\n  https://c.example\n  https://d.example\n"
    )
    answer = shelf.run(
        "print(as_pip_is_told())",
        PIP_CONFIG_FILE=str(file),
        PIP_FIND_LINKS=f"{tmp_path} /nowhere https://e.example/wheels",
        PIP_DEFAULT_TIMEOUT="180",
    )
    assert ast.literal_eval(answer.stdout) == {
        "UV_DEFAULT_INDEX": "https://b.example/simple",
        "UV_INDEX": "https://c.example https://d.example",
        "UV_FIND_LINKS": f"{tmp_path},https://e.example/wheels",
        "UV_HTTP_TIMEOUT": "180",
        "SSL_CERT_FILE": "/all.pem",
    }


def test_what_the_lock_has_not_is_named(shelf: Shelf) -> None:
    shelf.put("top", "Not.Locked")
    output, _ = shelf.install("top")
    assert "Not.Locked is not in constraints.txt" in output


def test_a_version_that_does_not_fit_is_named(shelf: Shelf) -> None:
    shelf.put("top", "bottom>=2")
    shelf.put("bottom")
    output, _ = shelf.install("top")
    assert "bottom>=2 is asked for, and 1.0 is what there is" in output


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
    assert "Hash mismatch" in shelf.install("bottom", bottom="sha256:" + 64 * "0")[0]
    assert shelf.install("bottom", bottom=digest(build))[0] == ""
