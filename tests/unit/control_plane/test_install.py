"""What a machine installs to become a pod: the wheel of what is installed here, and its lock."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from pip._vendor.packaging.requirements import Requirement

from control_plane.server.install import own_files
from control_plane.server.install.lock import Lock, Pin, read_lock, requirements, wanted_extras
from control_plane.server.install.own_files import own_wheel
from control_plane.server.install.wheel import packed
from events.runtime.errors import Rejected, Transient
from scripts.lock import EXTRAS_OF_PODS, PODS, for_pods
from scripts.locked import LOCK, ROOT
from scripts.locked import Pin as LockedPin
from scripts.locked import read_lock as read_whole_lock

ABOUT = "a-1.0.dist-info"


def contents(wheel: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        assert archive.testzip() is None
        return {each: archive.read(each) for each in archive.namelist()}


def test_the_same_files_are_the_same_wheel_in_whatever_order_they_were_found() -> None:
    files = {"a/x.py": b"1", f"{ABOUT}/METADATA": b"Name: a\n", "a/__init__.py": b""}
    first = packed("a", "1.0", files)
    assert packed("a", "1.0", dict(reversed(files.items()))) == first
    assert first.name == "a-1.0-py3-none-any.whl"
    assert first.sha256 == hashlib.sha256(first.content).hexdigest()


def test_the_record_of_a_wheel_has_every_file_with_its_hash_and_itself_without() -> None:
    found = contents(packed("a", "1.0", {"a/x, y.py": b"1", f"{ABOUT}/METADATA": b"Name: a\n"}).content)
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(found[f"{ABOUT}/RECORD"].decode()))}
    assert rows.keys() == found.keys()
    assert rows.pop(f"{ABOUT}/RECORD") == ["", ""]
    for path, (digest, size) in rows.items():
        told = base64.urlsafe_b64encode(hashlib.sha256(found[path]).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={told}", len(found[path])), path


@pytest.mark.slow("the build back-end packs the whole checkout")
def test_the_wheel_of_a_checkout_has_the_files_that_its_build_has(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = tmp_path.glob("*.whl")
    ours, theirs = own_wheel(), contents(built.read_bytes())
    assert ours.name == built.name
    found = contents(ours.content)
    assert found.keys() == theirs.keys()
    assert [path for path in found if not path.endswith("RECORD") and found[path] != theirs[path]] == []


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose files are all that is installed."""
    folder = tmp_path / "only_here"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(own_files, "PACKAGES", ("only_here",))
    return folder


def test_hidden_files_links_and_what_is_compiled_are_not_served(package: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (package / ".env").write_text("KEY=s")
    (package / ".git").mkdir()
    (package / ".git" / "config").write_text("s")
    (package / "link.py").symlink_to(tmp_path / "secret")
    (package / "folder").symlink_to(tmp_path)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.cpython-311.pyc").write_text("s")
    (package / "page.html").write_text("<p>")
    own = {each for each in contents(own_wheel().content) if each.startswith("only_here")}
    assert own == {"only_here/__init__.py", "only_here/page.html"}


@pytest.mark.parametrize("bound", ["FILES_MAX", "WHEEL_BYTES_MAX"])
def test_folders_that_hold_more_than_podfleet_are_refused(
    package: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    (package / "data.bin").write_bytes(b"x" * 100)
    monkeypatch.setattr(own_files, bound, 1)
    with pytest.raises(Transient, match="more than podfleet is"):
        own_wheel()


def test_the_lock_of_pods_is_the_part_of_the_whole_that_they_need() -> None:
    whole, lock = read_whole_lock(LOCK.read_text()), read_lock()
    assert tuple(lock.extras) == EXTRAS_OF_PODS
    for name, pin in lock.pins.items():
        message = f"{name}: `python -m scripts.lock --pods` writes {PODS.name} anew"
        assert (pin.version, pin.hashes) == (whole[name].version, whole[name].hashes), message
    assert {name for names in lock.extras.values() for name in names} == lock.pins.keys()


@pytest.mark.parametrize("extra", EXTRAS_OF_PODS)
def test_pip_reads_each_requirement_with_a_version_and_hashes(extra: str) -> None:
    lock = read_lock()
    blocks = requirements(lock, [extra]).replace(" \\\n", "").splitlines()
    lines = [each for each in blocks if not each.startswith("#")]
    read = [Requirement(line.partition(" --hash=")[0].partition("    ")[0]) for line in lines]
    assert {each.name for each in read} == lock.extras[extra].keys()
    assert all(str(each.specifier).startswith("==") for each in read)
    assert all("--hash=sha256:" in line for line in lines)


def lock_of(extras: Mapping[str, Mapping[str, str]]) -> Lock:
    names = {name for each in extras.values() for name in each}
    return Lock(
        {name: dict(each) for name, each in extras.items()}, {each: Pin("1", ("sha256:0",)) for each in names}
    )


def test_a_package_of_two_extras_is_named_once_where_either_needs_it() -> None:
    lock = lock_of({"a": {"x": "m == '1'", "y": "m == '1'"}, "b": {"x": "m == '2'", "y": ""}})
    lines = requirements(lock, ["a", "b"]).splitlines()
    assert [each for each in lines if "==1" in each] == ["x==1 ; (m == '1') or (m == '2') \\", "y==1 \\"]


def test_a_machine_with_pytorch_is_told_nothing_that_comes_with_it_but_all_else() -> None:
    lock = lock_of({"a": dict.fromkeys(("torch", "triton", "nvidia-cublas", "nvidia-ml-py", "numpy"), "")})
    told = requirements(lock, ["a"], has_torch=True)
    assert [each.partition("==")[0] for each in told.splitlines() if "==" in each] == [
        "numpy",
        "nvidia-ml-py",
    ]


@pytest.mark.parametrize("text", ["", " , ", "test", "pod,embedded", "pod\nx==1", "../pod"])
def test_an_extra_that_pods_lack_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(Rejected, match="pod, models") as refused:
        wanted_extras(text, read_lock())
    assert refused.value.code == "unknown_extra"


def test_the_lock_of_pods_says_of_a_package_where_it_is_needed_only_if_that_is_not_everywhere() -> None:
    pins = {name: LockedPin(name, "1", ("sha256:0",)) for name in ("all", "x", "y", "other")}
    told = for_pods({"pod": "all==1 ; here\nx==1 ; here\ny==1 ; here and there\n"}, pins, "all")
    assert '"x": ""' in told
    assert '"y": "here and there"' in told
    assert "other" not in told
    with pytest.raises(SystemExit, match="pod asks for x 2, and 1 is locked"):
        for_pods({"pod": "all==1\nx==2\n"}, pins, "all")
