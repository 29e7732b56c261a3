"""What a worker is told about the tools of its pipelines is checked at its start, all at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from events.runtime.errors import ConfigError
from pod_worker.child.process import allowed
from pod_worker.config import DATA_DEFAULT, DATA_OF_ROOT, Settings, Wishes, read_settings
from pod_worker.machine.gauges import Capabilities
from pod_worker.machine.gpu import Gpu
from pod_worker.program import labels_of

ENVIRON = {"MONGODB_URL": "mongodb://127.0.0.1/podfleet"}
ASKED = "ollama=http://127.0.0.1:11434/api"


def read(**values: str) -> Settings:
    return read_settings({**ENVIRON, **values}, Wishes(), dotenv=Path("none"))


def problems_of(**values: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read(**values)
    return raised.value.message


@pytest.mark.parametrize(("text", "price"), [("0", 0.0), ("2.5", 2.5), ("1e2", 100.0)])
def test_a_price_is_a_number(text: str, price: float) -> None:
    assert read(PODFLEET_GPU_USD_PER_HOUR=text).gpu_usd_per_hour == price


def test_a_pod_without_a_price_has_none() -> None:
    assert read().gpu_usd_per_hour is None
    assert read(PODFLEET_GPU_USD_PER_HOUR="").gpu_usd_per_hour is None


@pytest.mark.parametrize("text", ["free", "-1", "nan", "inf", "1,5", "2.50 $"])
def test_a_price_that_is_no_amount_is_refused(text: str) -> None:
    assert f"PODFLEET_GPU_USD_PER_HOUR is {text!r}" in problems_of(PODFLEET_GPU_USD_PER_HOUR=text)


def test_every_problem_is_named_together_with_what_is_accepted(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    said = problems_of(
        PODFLEET_GPU_USD_PER_HOUR="much",
        PODFLEET_PRICES=str(tmp_path),
        PODFLEET_DATASETS=os.pathsep.join([str(tmp_path), str(missing)]),
        PODFLEET_ISOLATION="none",
        PODFLEET_JOB_ISOLATION="none",
        PODFLEET_ENGINES="image, everything",
        PODFLEET_ENDPOINTS="Ollama=http://127.0.0.1:11434/api, vllm=http://user:pw@127.0.0.1/v1",
        PODFLEET_LITERATURE_URL="index.example",
        PODFLEET_HUB_URL="hub.example",
        WORKER_MODE="both",
    )
    names = ("GPU_USD_PER_HOUR", "PRICES", "DATASETS", "ISOLATION", "ENGINES", "LITERATURE_URL", "HUB_URL")
    assert [name for name in names if f"PODFLEET_{name}" not in said] == []
    assert "accepted values: strict, filter, best" in said
    assert "PODFLEET_JOB_ISOLATION is 'none'; accepted values: user, sandbox" in said
    assert "accepted values: experiment, ideation, hybrid" in said
    assert str(missing) in said
    assert "PODFLEET_ENGINES names everything; accepted words: command, image" in said
    assert "PODFLEET_ENDPOINTS: 'Ollama' is no name of an endpoint" in said
    assert (
        "PODFLEET_ENDPOINTS: vllm needs an address such as http://127.0.0.1:8000/v1, without secrets" in said
    )
    assert said.count("\n") == 10


def test_what_exists_is_accepted(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.touch()
    folders = os.pathsep.join([str(tmp_path), str(tmp_path)])
    for isolation in ("best", "filter", "strict"):
        read(PODFLEET_PRICES=str(prices), PODFLEET_DATASETS=folders, PODFLEET_ISOLATION=isolation)
    for address in ("", "http://127.0.0.1:9/graph/v1", "https://index.example"):
        read(PODFLEET_LITERATURE_URL=address)
    read(PODFLEET_HUB_URL="none")


@pytest.mark.parametrize("address", ["index.example", "ftp://index.example", "http://", "http://[::1"])
def test_an_index_without_an_address_is_refused(address: str) -> None:
    assert "PODFLEET_LITERATURE_URL must" in problems_of(PODFLEET_LITERATURE_URL=address)


def test_a_pipeline_sees_the_settings_of_its_tools_and_no_key_of_the_fleet() -> None:
    names = (
        "PODFLEET_PRICES", "PODFLEET_DATASETS", "PODFLEET_ISOLATION", "PODFLEET_GPU_USD_PER_HOUR",
        "PODFLEET_JUDGE_SECRET", "PODFLEET_JOB_ISOLATION",
        "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL",
    )  # fmt: skip
    secrets = ("PODFLEET_API_KEY", "MONGODB_URL", "MINIO_SECRET_KEY", "PODFLEET_REGION")
    passed = allowed(dict.fromkeys([*names, *secrets], "x"))
    assert sorted(passed) == sorted(names)


@pytest.mark.parametrize(
    ("user", "has_data", "is_of_root"), [(0, False, True), (0, True, False), (7, False, False)]
)
def test_roots_data_lie_where_other_users_may_pass(
    user: int, has_data: bool, is_of_root: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: user)
    if has_data:
        DATA_DEFAULT.expanduser().mkdir(parents=True)
    assert (read().data == DATA_OF_ROOT) is is_of_root


def test_labels_are_of_the_setting_and_of_the_command_line_which_wins() -> None:
    values = {**ENVIRON, "PODFLEET_LABELS": "rack=a4,tenant=vision"}
    settings = read_settings(values, Wishes(labels=("rack=b1",)), dotenv=Path("none"))
    assert settings.labels == {"rack": "b1", "tenant": "vision"}
    assert read().labels == {}
    said = problems_of(PODFLEET_LABELS="gpu=h100,rack", PODFLEET_ISOLATION="none")
    assert "PODFLEET_LABELS: 'gpu' is said by the pod itself, and cannot be set" in said
    assert "PODFLEET_LABELS: 'rack' is not name=value, such as rack=a4" in said
    assert said.count("\n") == 2


def test_a_pod_says_what_it_measures_over_what_its_operator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pod_worker.program.engines_here", lambda environ: ["vllm"])
    gpus = (Gpu("NVIDIA H100 80GB HBM3", 81_559.0),) * 4
    has = Capabilities(64, 512 * 1024.0, gpus, "550.54.15", 2_000 * 1024.0)
    said = labels_of(
        has,
        read(
            PODFLEET_LABELS="rack=a4", PODFLEET_REGION="eu-de", PODFLEET_POD_ID="p", PODFLEET_ENDPOINTS=ASKED
        ),
    )
    assert said == {
        "gpu": "h100", "gpus": "4", "gpu_gib": "80", "cpu": "64", "memory": "512", "disk": "2000",
        "driver": "550.54.15", "region": "eu-de", "rack": "a4", "engine-vllm": "yes",
        "endpoint-ollama": "yes",
    }  # fmt: skip
