"""Which control plane is asked, and that a key goes nowhere but where it was made for."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from events.runtime.access import FILE, KEY, URL, URL_DEFAULT, Access, access, noted, running
from events.runtime.errors import ConfigError

NEAR = Access("http://127.0.0.1:9999", "near")
ELSEWHERE = "http://elsewhere.example"


@pytest.mark.parametrize(
    ("environment", "written", "near", "found"),
    [
        ({}, {}, None, (URL_DEFAULT, None)),
        ({}, {}, NEAR, (NEAR.url, "near")),
        ({KEY: "k"}, {}, None, (URL_DEFAULT, "k")),
        ({KEY: "k"}, {}, NEAR, (NEAR.url, "k")),
        ({}, {KEY: "f"}, None, (URL_DEFAULT, "f")),
        ({URL: ELSEWHERE, KEY: "k"}, {}, NEAR, (ELSEWHERE, "k")),
        ({URL: ELSEWHERE, KEY: "k"}, {URL: "http://b", KEY: "f"}, None, (ELSEWHERE, "k")),
        ({URL: ELSEWHERE}, {}, NEAR, (ELSEWHERE, None)),
        ({}, {URL: ELSEWHERE}, NEAR, (ELSEWHERE, None)),
        ({}, {URL: ELSEWHERE, KEY: "f"}, NEAR, (ELSEWHERE, "f")),
        ({KEY: "k"}, {URL: ELSEWHERE, KEY: "f"}, None, (ELSEWHERE, "f")),
        ({URL: f"{ELSEWHERE}/", KEY: "k"}, {URL: ELSEWHERE}, None, (ELSEWHERE, "k")),
        ({KEY: "k"}, {URL: "http://localhost:8700"}, None, ("http://localhost:8700", "k")),
        ({URL: "http://localhost:9999"}, {}, NEAR, ("http://localhost:9999", "near")),
    ],
)
def test_a_key_goes_where_its_place_says(
    environment: dict[str, str], written: dict[str, str], near: Access | None, found: tuple[str, str | None]
) -> None:
    got = access(environment, written, near)
    assert (got.url, got.key) == found


@pytest.mark.parametrize(
    ("environment", "written"),
    [
        ({KEY: "secret"}, {URL: ELSEWHERE}),
        ({URL: ELSEWHERE}, {KEY: "secret"}),
        ({URL: ELSEWHERE}, {KEY: "secret", URL: "http://127.0.0.1:8700"}),
        ({KEY: "secret"}, {URL: "https://127.0.0.1:8700"}),
        ({KEY: "secret"}, {URL: "http://127.0.0.1:8701"}),
        ({KEY: "secret"}, {URL: "http://[::1"}),
        ({URL: "http://[::1"}, {KEY: "secret", URL: "http://[::2"}),
        ({KEY: "secret"}, {URL: f"{URL_DEFAULT}/of-another"}),
    ],
)
def test_a_key_for_another_address_is_refused_in_words(
    environment: dict[str, str], written: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match="is not sent to the address that") as caught:
        access(environment, written, NEAR if URL in environment else None)
    assert "secret" not in caught.value.message


def test_a_fleet_is_found_with_its_stores(tmp_path: Path) -> None:
    file = tmp_path / FILE
    near = replace(NEAR, stores={"MONGODB_URL": "mongodb://u:word@127.0.0.1/p"})
    file.write_text(noted(near, os.getpid()))
    file.chmod(0o600)
    assert running(tmp_path) == near
    assert "word" not in repr(near)
    for stores in ([], "x", 7, None):
        file.write_text(json.dumps({**json.loads(noted(near, os.getpid())), "stores": stores}))
        assert running(tmp_path) is None, stores


@pytest.mark.timeout(60)
def test_a_pipe_or_a_folder_in_the_place_of_the_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE, 0o600)
    assert running(tmp_path) is None
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir(0o700)
    assert running(tmp_path) is None


def test_a_fleet_is_found_while_it_runs_and_only_in_a_file_of_ours(tmp_path: Path) -> None:
    assert running(tmp_path) is None
    file = tmp_path / FILE
    file.write_text(noted(NEAR, os.getpid()))
    file.chmod(0o600)
    assert running(tmp_path) == NEAR
    for mode in (0o644, 0o660):
        file.chmod(mode)
        assert running(tmp_path) is None
    file.chmod(0o600)
    said = json.loads(file.read_text())
    for change in ({"moment": "1"}, {"pid": 2**31}, {"pid": "x"}, {"pid": None}, {"pid": 1e999}):
        file.write_text(json.dumps({**said, **change}))
        assert running(tmp_path) is None, change
    for text in ("", "[]", "null", "{}", "[" * 4_000, "\xff", json.dumps({**said, "x": "x" * 4_096})):
        file.write_text(text)
        assert running(tmp_path) is None, text


def test_a_fleet_of_another_user_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / FILE
    file.write_text(noted(NEAR, os.getpid()))
    file.chmod(0o600)
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert running(tmp_path) is None


def test_no_key_shows_in_a_representation() -> None:
    assert "secret" not in repr(Access(ELSEWHERE, "secret", {"MINIO_SECRET_KEY": "secret"}))


@pytest.mark.parametrize(
    "url", [ELSEWHERE, "https://127.0.0.1:9999", "http://127.0.0.1@elsewhere", "http://[::1", ""]
)
def test_a_file_that_an_archive_brought_along_leads_no_key_to_another_machine(
    tmp_path: Path, url: str
) -> None:
    file = tmp_path / FILE
    file.write_text(noted(Access(url, "theirs"), os.getpid()))
    file.chmod(0o600)
    found = access({KEY: "secret"}, {}, running(tmp_path))
    assert (found.url, found.key) == (URL_DEFAULT, "secret")
