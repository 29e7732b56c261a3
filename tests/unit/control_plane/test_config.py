"""A control plane's settings: all problems at once, and no secret in any print."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.config import BUDGETS, environment, read_settings
from control_plane.files.blobs import open_blobs
from control_plane.store import database
from events.runtime.errors import ConfigError

GOOD = {
    "MONGODB_URL": "mongodb://user:word@host/db", "MINIO_ENDPOINT": "127.0.0.1:9000",
    "MINIO_ACCESS_KEY": "access-word", "MINIO_SECRET_KEY": "secret-word",
}  # fmt: skip
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused without a key


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings({"MINIO_SECURE": "maybe", "MINIO_ENDPOINT": "http://x"}, host=EVERYWHERE, port=70_000)
    text = caught.value.message
    for word in ("MONGODB_URL", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "true, false", "scheme", "65535",
                 "PODFLEET_API_KEY"):  # fmt: skip
        assert word in text


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.5", "example.org", "", "127.0.0.1"])
def test_a_server_needs_a_key(host: str) -> None:
    assert read_settings(GOOD, host=host, port=8700).needs_stored_key
    assert not read_settings({**GOOD, "PODFLEET_API_KEY": "k"}, host=host, port=8700).needs_stored_key
    if host == "127.0.0.1":
        assert not read_settings(GOOD, host=host, port=8700, keyless=True).needs_stored_key
        return
    with pytest.raises(ConfigError, match="--keyless is for a machine of one's own"):
        read_settings(GOOD, host=host, port=8700, keyless=True)


@pytest.mark.parametrize("name", [*BUDGETS])
@pytest.mark.parametrize("value", ["lots", "-1", "99999", "1e9", "0", "1" * 16])
def test_a_budget_is_a_number_of_bytes(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is '{value}'"):
        read_settings({**GOOD, name: value}, host="127.0.0.1", port=8700)


def test_each_budget_has_its_setting() -> None:
    values = {name: f"{number}00000" for number, name in enumerate(BUDGETS, 1)}
    found = read_settings({**GOOD, **values}, host="127.0.0.1", port=8700)
    assert (found.event_bytes_max, found.key_bytes_max, found.artifact_bytes_max) == (
        100_000, 200_000, 300_000,
    )  # fmt: skip


def test_no_secret_is_in_the_repr() -> None:
    settings = read_settings({**GOOD, "PODFLEET_API_KEY": "key-word"}, host="127.0.0.1", port=8700)
    for secret in ("word", "mongodb://"):
        assert secret not in repr(settings)
    assert set(settings.secrets) == {GOOD["MONGODB_URL"], "key-word", "access-word", "secret-word"}


def test_the_real_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("MINIO_BUCKET=file\nMINIO_REGION=file\n")
    monkeypatch.setenv("MINIO_BUCKET", "real")
    found = environment(tmp_path)
    assert (found["MINIO_BUCKET"], found["MINIO_REGION"]) == ("real", "file")


@pytest.mark.parametrize(
    "change", [{"MINIO_BUCKET": "Not A Bucket"}, {"MINIO_ENDPOINT": "host:port"}, {"MINIO_BUCKET": "x"}]
)
def test_a_storage_that_cannot_be_is_a_problem_of_the_configuration(change: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="MINIO"):
        open_blobs(read_settings({**GOOD, **change}, host="127.0.0.1", port=8700).storage)


@pytest.mark.parametrize(
    "url",
    ["x", "mongodb://", "mongodb://host:99999/x", "mongodb://host/a%20b", "http://host/x", "mongodb://a:b@"],
)
async def test_an_unusable_connection_string_is_a_problem_of_the_configuration(url: str) -> None:
    with pytest.raises(ConfigError, match="MONGODB_URL"):
        database.database(database.connect(url), url)


@pytest.mark.parametrize(
    "text",
    ["*", "null", "dashboard.example", "https://a.example/", "https://a.example:443", "https://", "ftp://["],
)
def test_only_an_origin_may_be_listed(text: str) -> None:
    with pytest.raises(ConfigError, match="PODFLEET_ORIGINS"):
        read_settings({**GOOD, "PODFLEET_ORIGINS": text}, host="127.0.0.1", port=8700)


def test_hosts_where_listings_may_be_are_named_without_ports() -> None:
    with pytest.raises(ConfigError, match=r"PODFLEET_PRIVATE_HOSTS has '10\.0\.0\.7:80'"):
        read_settings({**GOOD, "PODFLEET_PRIVATE_HOSTS": "10.0.0.7:80"}, host="127.0.0.1", port=8700)
    settings = read_settings({**GOOD, "PODFLEET_PRIVATE_HOSTS": "10.0.0.0/8"}, host="127.0.0.1", port=8700)
    assert settings.egress.objection("a.example", "10.0.0.7") is None
    assert settings.egress.objection("a.example", "127.0.0.1") is not None


def test_several_origins_are_separated_by_commas() -> None:
    values = {**GOOD, "PODFLEET_ORIGINS": "https://a.example, http://localhost:3000"}
    found = read_settings(values, host="127.0.0.1", port=8700)
    assert found.origins == ("https://a.example", "http://localhost:3000")
    assert read_settings(GOOD, host="127.0.0.1", port=8700).origins == ()
