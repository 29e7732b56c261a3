"""The environment of an engine: what it has of its pod, what it has not, and what is told of it."""

from __future__ import annotations

from stages.engines.environment import described, engine_environment, mask_of

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
