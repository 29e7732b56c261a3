"""The line by which a machine becomes a pod."""

from __future__ import annotations

import shlex

import pytest

from events.answers.fleet import Installation
from podfleet.commands.access.join_line import Joining, fault_of_url, line_of, start_of, warning_of_url

SERVED = Installation(
    version="1.0", wheel="/install/podfleet-1.0-py3-none-any.whl", sha256="ab" * 32, bytes=5,
    requirements="/install/requirements.txt", extras=["pod", "models", "more"], public_url=None,
)  # fmt: skip
URL = "https://fleet.example"


def test_the_line_installs_by_hashes_and_then_starts_the_worker() -> None:
    venv, pip, start = line_of(Joining(url=URL, key="k", mode="hybrid", slots=2), SERVED).split(" && ")
    assert shlex.split(venv) == ["python3", "-m", "venv", "podfleet-pod"]
    assert shlex.split(pip)[1:] == [
        *("install", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
        *("-r", f"{URL}/install/requirements.txt"),
        f"podfleet @ {URL}/install/podfleet-1.0-py3-none-any.whl#sha256={'ab' * 32}",
    ]
    settings, program = start.split(" podfleet-pod/bin/python ")
    assert settings == f"CONTROL_PLANE_URL={URL} PODFLEET_API_KEY=k PODFLEET_UPDATE=pod,models"
    assert program.startswith("-m pod_worker ")
    assert shlex.split(start)[-4:] == ["--mode", "hybrid", "--slots", "2"]


def test_what_an_operator_wrote_reaches_the_worker_as_one_word_each() -> None:
    odd = "a=x'; touch /tmp/y; '$(id)`id`"
    wanted = Joining(url=URL, key="k$(id)", pod="p q", labels=[odd], python="/opt/my python/bin/python3")
    line = line_of(wanted, SERVED)
    assert shlex.split(line)[0] == "/opt/my python/bin/python3"
    assert shlex.split(start_of(wanted)) == [
        *(f"CONTROL_PLANE_URL={URL}", "PODFLEET_API_KEY=k$(id)", "PODFLEET_POD_ID=p q"),
        "PODFLEET_UPDATE=pod,models",
        *("podfleet-pod/bin/python", "-m", "pod_worker", "--label", odd),
    ]


def test_the_key_stands_in_the_environment_of_the_worker_and_nowhere_else() -> None:
    line = line_of(Joining(url=URL, key="SECRET"), SERVED)
    assert line.count("SECRET") == 1
    assert "PODFLEET_API_KEY=SECRET" in line.rpartition(" && ")[2]


def test_a_machine_with_pytorch_of_its_own_sees_it() -> None:
    line = line_of(Joining(url=URL, key="k", extras=["pod", "more"], has_torch=True), SERVED)
    assert " -m venv --system-site-packages podfleet-pod" in line
    assert f"{URL}/install/requirements.txt?extras=pod%2Cmore&torch=own" in shlex.split(line)


@pytest.mark.parametrize(
    "url",
    [
        *("", "fleet.example", "ftp://fleet.example", "https://", "https://u:p@fleet.example"),
        *(
            "https://fleet.example?x=1",
            "https://fleet.example#x",
            "https://[::1",
            "https://a\nb",
            "http://a:0",
        ),
    ],
)
def test_an_address_that_no_machine_can_use_is_refused(url: str) -> None:
    assert fault_of_url(url)


@pytest.mark.parametrize(
    "url", [URL, "http://10.0.0.7:8700", "https://fleet.example/under/this", "http://[::1]:1"]
)
def test_an_address_of_a_control_plane_is_taken(url: str) -> None:
    assert fault_of_url(url) is None


def test_an_operator_is_warned_of_an_address_that_others_cannot_reach_or_can_listen_to() -> None:
    assert "this machine alone" in str(warning_of_url("http://127.0.0.1:8700"))
    assert "not encrypted" in str(warning_of_url("http://fleet.example"))
    assert warning_of_url(URL) is None
