"""The environment of the stack: `.env` below what is really set."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfleet.embedded.config import environment


def test_the_real_environment_wins_over_the_file_and_empty_lines_count_as_unset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("MONGODB_URL=mongodb://file\nMINIO_ENDPOINT=\nHF_HOME=/from/file\n")
    monkeypatch.setenv("MONGODB_URL", "mongodb://real")
    monkeypatch.delenv("HF_HOME", raising=False)
    found = environment(tmp_path)
    assert (found["MONGODB_URL"], found["HF_HOME"]) == ("mongodb://real", "/from/file")
    assert "MINIO_ENDPOINT" not in found


def test_no_file_is_fine(tmp_path: Path) -> None:
    assert "PATH" in environment(tmp_path)
