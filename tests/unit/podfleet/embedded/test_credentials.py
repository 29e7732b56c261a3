"""Credentials: random, kept, for their owner's eyes only."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from events.runtime.clock import SystemIds
from events.runtime.errors import ConfigError
from podfleet.embedded.credentials import credentials
from podfleet.embedded.private_file import private_directory, replace_private


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_credentials_are_made_once_and_differ_between_data_directories(tmp_path: Path) -> None:
    ids = SystemIds()
    first = credentials(tmp_path / "a" / "credentials.json", ids)
    assert credentials(tmp_path / "a" / "credentials.json", ids) == first
    assert credentials(tmp_path / "b" / "credentials.json", ids) != first


def test_only_the_owner_can_read_credentials_and_their_directory(tmp_path: Path) -> None:
    path = tmp_path / "data" / "credentials.json"
    credentials(path, SystemIds())
    assert (_mode(path), _mode(path.parent)) == (0o600, 0o700)
    path.chmod(0o644)
    credentials(path, SystemIds())
    assert _mode(path) == 0o600


def test_secrets_do_not_show_in_a_representation(tmp_path: Path) -> None:
    made = credentials(tmp_path / "credentials.json", SystemIds())
    for secret in (made.mongo_password, made.mongo_key, made.s3_secret_key, made.api_key):
        assert secret not in repr(made)


def test_a_spoilt_file_is_an_error_that_names_it_and_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text("{}")
    with pytest.raises(ConfigError, match=str(path)):
        credentials(path, SystemIds())
    assert path.read_text() == "{}"


def test_a_draft_left_by_a_crash_does_not_lend_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    draft = tmp_path / ".secret.new"
    draft.write_text("half")
    draft.chmod(0o666)
    replace_private(path, "whole")
    assert (path.read_text(), _mode(path), draft.exists()) == ("whole", 0o600, False)


def test_a_draft_that_somebody_puts_back_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".secret.new").symlink_to(tmp_path / "read by all")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(FileExistsError):
        replace_private(tmp_path / "secret", "whole")
    assert not (tmp_path / "read by all").exists()


def test_a_private_directory_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").mkdir(0o755)
    assert _mode(private_directory(tmp_path / "old")) == 0o700
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    assert _mode(private_directory(tmp_path / "new")) == 0o700
