"""Which server is started: the machine's own where it is fit, else the wheel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.runtime.errors import ConfigError
from podfleet.embedded import mongod as module
from podfleet.embedded.mongod import find_mongod
from podfleet.embedded.s3 import find_s3


def _program(directory: Path, name: str, output: str, *, status: int = 0) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{output}'\nexit {status}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_wheel_mongod", lambda: None)


def test_a_mongod_on_the_path_comes_first(tmp_path: Path) -> None:
    program = _program(tmp_path, "mongod", "db version v7.0.1")
    assert find_mongod(str(tmp_path)) == program


def test_a_mongod_that_is_too_old_gives_way_to_the_wheel(tmp_path: Path) -> None:
    _program(tmp_path, "mongod", "db version v4.4.29")
    assert "fiftyone" in str(find_mongod(str(tmp_path)))


@pytest.mark.usefixtures("no_wheel")
@pytest.mark.parametrize(
    ("output", "status", "reason"),
    [
        ("db version v4.4.29", 0, "older"),
        ("", 127, "does not run"),
        ("nonsense", 0, "older"),
        ("", 0, "older"),
    ],
)
def test_without_any_fit_mongod_the_error_names_three_ways_and_the_reason(
    tmp_path: Path, output: str, status: int, reason: str
) -> None:
    _program(tmp_path, "mongod", output, status=status)
    with pytest.raises(ConfigError) as caught:
        find_mongod(str(tmp_path))
    for word in ("MONGODB_URL", "PATH", "podfleet[embedded]", reason):
        assert word in caught.value.message


def test_a_minio_on_the_path_comes_before_rclone(tmp_path: Path) -> None:
    program = _program(tmp_path, "minio", "")
    assert (find_s3(str(tmp_path)).kind, find_s3(str(tmp_path)).binary) == ("minio", program)
    assert find_s3("").kind == "rclone"
