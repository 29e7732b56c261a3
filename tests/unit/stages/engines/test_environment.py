"""The environment of an engine: what it has of its pod, what it has not, and what is told of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from events.models.variables import faults
from events.runtime.errors import PipelineError
from stages.engines.environment import described, engine_environment, mask_of
from stages.engines.hub_access import Own, with_own

TOKEN = "hf_abcdefghijklmnop"
PROXY = "http://me:pass-word-1@10.0.0.1:3128"


def test_proxies_and_tokens_have_every_name_that_programs_read() -> None:
    found = engine_environment({"https_proxy": PROXY, "HTTP_PROXY": " http://p:1 ", "HF_TOKEN": TOKEN})
    assert found["HTTPS_PROXY"] == found["https_proxy"] == PROXY
    assert found["HTTP_PROXY"] == found["http_proxy"] == "http://p:1"
    assert found["HF_TOKEN"] == found["HUGGING_FACE_HUB_TOKEN"] == TOKEN
    assert engine_environment({"HUGGING_FACE_HUB_TOKEN": TOKEN})["HF_TOKEN"] == TOKEN


def test_what_is_empty_is_not_set() -> None:
    empty = dict.fromkeys(("HTTP_PROXY", "HF_TOKEN", "HF_HOME", "MODEL_PATH", "HF_HUB_OFFLINE"), "  ")
    assert engine_environment(empty) == {
        "NO_PROXY": "localhost,127.0.0.1,.local", "no_proxy": "localhost,127.0.0.1,.local"
    }  # fmt: skip


def test_this_pod_is_asked_without_a_proxy_whatever_is_set() -> None:
    found = engine_environment({"NO_PROXY": ".internal, 127.0.0.1,,"})
    assert found["NO_PROXY"] == found["no_proxy"] == ".internal,127.0.0.1,localhost,.local"


def test_nothing_else_is_inherited() -> None:
    given = {
        "OPENAI_API_KEY": "sk-1",
        "PODFLEET_API_KEY": "pf",
        "MY_SECRET": "x",
        "HF_HOME": "/h",
        "HOME": "/r",
    }
    assert {*engine_environment(given)} == {"HF_HOME", "NO_PROXY", "no_proxy"}


def test_offline_is_the_pods_or_the_runs() -> None:
    assert engine_environment({"HF_HUB_OFFLINE": "1"})["HF_HUB_OFFLINE"] == "1"
    assert engine_environment({}, is_offline=True)["HF_HUB_OFFLINE"] == "1"
    assert engine_environment({}, is_offline=True)["TRANSFORMERS_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in engine_environment({})


def test_what_is_told_has_no_secrets() -> None:
    found = engine_environment({"HTTPS_PROXY": PROXY, "HF_TOKEN": TOKEN})
    assert described(found) == "HTTPS_PROXY=http://***@10.0.0.1:3128, HF_TOKEN=***"
    assert described(engine_environment({})) == "no proxy, no HF_TOKEN"
    assert described(engine_environment({}, is_offline=True)) == "no proxy, no HF_TOKEN, HF_HUB_OFFLINE=1"
    said = mask_of(found).text(f"GET with {TOKEN} by me:pass-word-1 over {PROXY}")
    assert said == "GET with *** by me:*** over http://***@10.0.0.1:3128"


POD = {"HF_TOKEN": "hf_of_the_pod_1", "https_proxy": "http://pod:3128", "PODFLEET_ENGINES": "proxy"}
RUN = {
    "HF_TOKEN_LAB": TOKEN, "PROXY_LAB": PROXY, "PROXY_ODD": "me:pass word@host", "HF_TOKEN_ODD": "a b",
    "CERTIFICATES_LAB": "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n",
    "CERTIFICATES_ODD": "pass-word-2",
}  # fmt: skip


def test_a_run_has_a_token_a_proxy_and_certificates_of_its_own(tmp_path: Path) -> None:
    own = Own(token="HF_TOKEN_LAB", proxy="PROXY_LAB", certificates="CERTIFICATES_LAB")
    found = engine_environment(with_own(own, POD | RUN, tmp_path))
    assert (
        described(found)
        == "HTTP_PROXY=http://***@10.0.0.1:3128, HTTPS_PROXY=http://***@10.0.0.1:3128, HF_TOKEN=***"
    )
    assert (found["HF_TOKEN"], found["https_proxy"]) == (TOKEN, PROXY)
    assert found["SSL_CERT_FILE"] == found["REQUESTS_CA_BUNDLE"] == str(tmp_path / "certificates.pem")
    assert (tmp_path / "certificates.pem").read_text() == RUN["CERTIFICATES_LAB"]
    assert not {*RUN} & {*found}
    assert engine_environment(with_own(Own(), POD | RUN, tmp_path))["HF_TOKEN"] == POD["HF_TOKEN"]
    token = engine_environment(with_own(Own(token="HF_TOKEN_LAB"), RUN, tmp_path))
    assert token["HF_TOKEN"] == TOKEN, "a token alone needs no consent"
    odd = POD | RUN | {"ALL_PROXY": "of the pod"}
    assert engine_environment(with_own(Own(token="HF_TOKEN_LAB"), odd, tmp_path))["HF_TOKEN"] == TOKEN


@pytest.mark.parametrize("own", [{"proxy": "PROXY_LAB"}, {"certificates": "CERTIFICATES_LAB"}])
def test_who_chooses_the_way_gets_no_token_of_the_pod(tmp_path: Path, own: dict[str, Any]) -> None:
    assert "HF_TOKEN" not in engine_environment(with_own(Own(**own), POD | RUN, tmp_path))
    with pytest.raises(PipelineError, match="PODFLEET_ENGINES=proxy would allow that") as caught:
        with_own(Own(**own), POD | RUN | {"PODFLEET_ENGINES": "image"}, tmp_path)
    assert (caught.value.code, caught.value.retryable) == ("CONFIG", True), "its pod is not at fault"


HUB = """
import os
from huggingface_hub import constants, get_token
print(get_token())
constants.HF_TOKEN_PATH = os.environ["HF_HOME"] + "/token"
print(get_token())
"""


def test_who_chooses_the_way_gets_no_token_from_the_pods_home_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_of_the_pods_home")
    pod = POD | RUN | {"HF_HOME": str(tmp_path)}
    found = engine_environment(with_own(Own(proxy="PROXY_LAB"), pod, tmp_path))
    asked = subprocess.run(
        [sys.executable, "-c", HUB], env=found, capture_output=True, text=True, check=True, timeout=60
    )
    assert asked.stdout.split() == ["None", "hf_of_the_pods_home"]


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"token": "HF_TOKEN_GONE"}, "no secret HF_TOKEN_GONE: set it, and submit the run with --secret"),
        ({"token": "HF_TOKEN_ODD"}, "HF_TOKEN is no token"),
        ({"proxy": "PROXY_ODD"}, "HTTP_PROXY is no address of a proxy"),
        ({"certificates": "CERTIFICATES_ODD"}, "the secret CERTIFICATES_ODD has no certificate"),
    ],
)
def test_a_secret_that_is_no_such_value_is_told_without_it(
    tmp_path: Path, own: dict[str, Any], says: str
) -> None:
    with pytest.raises(PipelineError, match=says) as caught:
        with_own(Own(**own), POD | RUN, tmp_path)
    assert caught.value.code == "CONFIG"
    assert not any(each in caught.value.message for each in ("pass word", "a b", "pass-word-2"))
    assert [*tmp_path.iterdir()] == []


def test_what_an_engine_cannot_use_is_told_by_its_name_alone() -> None:
    odd = {
        "HTTPS_PROXY": "http//secret", "http_proxy": "proxy:3128", "HF_TOKEN": "secret token",
        "HF_HOME": "secret", "SSL_CERT_FILE": "/secret", "MODEL_PATH": "/there", "HF_HUB_OFFLINE": "ja",
        "HF_ENDPOINT": "secret",
    }  # fmt: skip
    found = [*faults(odd, lambda path: path == "/there")]
    assert [each.partition(" ")[0] for each in found] == [
        "HTTPS_PROXY", "HF_TOKEN", "SSL_CERT_FILE", "HF_HOME", "HF_HUB_OFFLINE", "HF_ENDPOINT"
    ]  # fmt: skip
    assert not any("secret" in each for each in found)
    fine = {
        "HTTPS_PROXY": PROXY,
        "HF_TOKEN": TOKEN,
        "HF_HOME": "/h",
        "MODEL_PATH": " ",
        "HF_HUB_OFFLINE": "1",
    }
    assert [*faults(fine, lambda _: False)] == []


@pytest.mark.parametrize(
    ("proxy", "is_fine"),
    [
        ("http://[fd00::1]:3128", True),
        ("http://proxy_lab:3128", True),
        ("HTTP://h:1", True),
        ("user:pw@host:3128", True),
        ("socks5h://u:p@[::1]/", True),
        ("host", True),
        ("ftp://u@h:1", False),
        ("http://h:port", False),
        ("http://[h]:1", False),
        ("http://u:p@", False),
        ("user name@host", False),
    ],
)
def test_an_address_of_a_proxy_has_every_form_that_programs_take(proxy: str, is_fine: bool) -> None:
    assert bool([*faults({"HTTPS_PROXY": proxy}, lambda _: True)]) is not is_fine
