"""Settings are shown with their source and without their secrets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from podfleet.commands.maintenance.config import KNOWN, settings

# for processes that are started by ours, and for a decoy
SET_BY_US = {
    "PODFLEET_USER_TOKEN",
    "MINIO_ROOT_USER",
    "MINIO_ROOT_PASSWORD",
    "MINIO_BROWSER",
    "PODFLEET_DECOY",
    # of a job's program
    "PODFLEET_RUN_PIPE",
    "PODFLEET_RUN_CHECKPOINTS",
    "PODFLEET_RUN_RESTORED",
    "PODFLEET_RUN_NOTES",
    "PODFLEET_RUN_ID",
    "PODFLEET_ATTEMPT",
    "PODFLEET_OUTPUT",
    "PODFLEET_INPUTS",
    "PODFLEET_NODES",
    "PODFLEET_NODE_RANK",
    "PODFLEET_GPU_SHARE",  # of a worker of `up`
}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("PODFLEET_API_KEY", "sesame", "********"),
        ("HF_TOKEN", "sesame", "********"),
        ("MINIO_SECRET_KEY", "sesame", "********"),
        ("MONGODB_URL", "mongodb://user:se%40same@h1,h2/db?replicaSet=rs", "mongodb://user:********@h1,h2/db?replicaSet=rs"),
        ("MONGODB_URL", "mongodb://user:sesame@sesame@h/db", "mongodb://user:********@h/db"),
        ("HTTPS_PROXY", "http://sesame@proxy:1", "http://********@proxy:1"),
        ("OPENAI_BASE_URL", "https://h/v1?api_key=sesame&x=1", "https://h/v1?api_key=********&x=1"),
        ("CONTROL_PLANE_URL", "http://h:8700", "http://h:8700"),
    ],
)  # fmt: skip
def test_no_secret_is_shown(name: str, value: str, shown: str) -> None:
    (row,) = [each for each in settings({name: value}, {}, ".env") if each["name"] == name]
    assert row["value"] == shown
    assert "same" not in str(row["value"])


def test_the_environment_wins_over_the_file_and_that_over_the_default() -> None:
    rows = {
        row["name"]: (row["value"], row["from"])
        for row in settings(
            {"MINIO_BUCKET": "from-outside", "MINIO_REGION": ""},
            {"MINIO_BUCKET": "x", "MINIO_REGION": "eu", "PODFLEET_REIGON": "typo"},
            "the file",
        )
    }
    assert rows["MINIO_BUCKET"] == ("from-outside", "environment")
    assert rows["MINIO_REGION"] == ("eu", "the file")
    assert rows["WORKER_MODE"] == ("experiment", "default")
    assert rows["MONGODB_URL"] == (None, "–")
    assert rows["PODFLEET_REIGON"] == ("typo", "the file (nobody reads this name)")


def test_every_setting_of_the_example_is_known() -> None:
    example = Path(__file__).parents[3] / ".env.example"
    names = set(re.findall(r"^#([A-Z_]+)=", example.read_text(), re.MULTILINE))
    assert "PODFLEET_PRIVATE_HOSTS" in names
    assert names - KNOWN.keys() == set()


def test_every_setting_that_a_program_reads_is_known() -> None:
    packages = ("podfleet", "control_plane", "pod_worker", "events", "stages")
    root = Path(__file__).parents[3]
    files = [path for package in packages for path in (root / package).rglob("*.py")]
    names = {
        name for path in files for name in re.findall(r'"((?:PODFLEET|MINIO)_[A-Z_]+)"', path.read_text())
    }
    assert "PODFLEET_ORIGINS" in names
    assert names - KNOWN.keys() - SET_BY_US == set()
