"""The worker's log, and what must never stand in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from events.runtime.logs import LogOptions, configure_logs
from events.text.mask import MASK

SECRET = "s3cr3t/p+ss"
log = logging.getLogger("pod_worker.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The log of this process, in JSON, for one test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure_logs(LogOptions(style="json", secrets=(SECRET,)), stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_line_of_json_with_its_fields(stream: io.StringIO) -> None:
    log.warning("lease.lost", extra={"run_id": "01K", "attempt": 2})
    (record,) = records(stream)
    assert record.pop("timestamp").endswith("Z")
    assert record == {
        "event": "lease.lost",
        "level": "warning",
        "logger": "pod_worker.test",
        "run_id": "01K",
        "attempt": 2,
    }


def test_no_message_and_no_traceback_steers_a_terminal(stream: io.StringIO) -> None:
    configure_logs(LogOptions(), stream)
    try:
        raise ValueError("\x1b]0;title\x07\nsecond line")
    except ValueError:
        log.exception("said \x1b[2J\x9b2J", extra={"text": "\x1b[31m"})
    printed = stream.getvalue()
    assert not set(printed) & set("\x1b\x07\x9b\x90")
    assert "\\x1b[2J" in printed
    assert "\nsecond line" in printed


def test_records_below_the_level_are_left_out(stream: io.StringIO) -> None:
    log.debug("loop.turned")
    assert records(stream) == []


def test_a_known_secret_is_masked_wherever_it_stands(stream: io.StringIO) -> None:
    extra = {"url": f"https://host/?sig={SECRET}", "deep": {"list": [SECRET, ("a", SECRET)]}}
    log.error("storage.refused %s", SECRET, extra=extra)
    assert SECRET not in stream.getvalue()
    (record,) = records(stream)
    assert record["event"] == f"storage.refused {MASK}"
    assert record["deep"] == {"list": [MASK, ["a", MASK]]}


def test_a_known_secret_is_masked_in_a_traceback_and_in_an_exceptions_text(stream: io.StringIO) -> None:
    try:
        raise ValueError(f"cannot log in with {SECRET}")
    except ValueError as error:
        log.exception("store.failed", extra={"error": error})
    assert SECRET not in stream.getvalue()
    (record,) = records(stream)
    assert "Traceback" in record["exception"]
    assert record["error"] == f"cannot log in with {MASK}"


def test_a_known_secret_is_masked_in_its_url_encoded_form(stream: io.StringIO) -> None:
    log.info("store.asked", extra={"query": "password=s3cr3t%2Fp%2Bss"})
    assert "s3cr3t" not in stream.getvalue()


@pytest.mark.parametrize(
    "name",
    ["password", "token", "claim_token", "claimToken", "api_key", "apiKey", "PODFLEET_API_KEY", "secret_key",
     "Authorization", "x-api-key", "MINIO_SECRET_KEY"],
)  # fmt: skip
def test_a_field_with_the_name_of_a_secret_is_masked(stream: io.StringIO, name: str) -> None:
    log.info("store.asked", extra={"headers": {name: "abc"}})
    assert records(stream)[0]["headers"] == {name: MASK}


@pytest.mark.parametrize("name", ["prompt_tokens", "class_key", "tokenizer", "key", "keys"])
def test_a_field_that_only_sounds_like_a_secret_is_shown(stream: io.StringIO, name: str) -> None:
    log.info("usage.told", extra={name: 12})
    assert records(stream)[0][name] == 12


def test_credentials_in_a_url_are_masked_though_nobody_named_them(stream: io.StringIO) -> None:
    log.info("store.asked", extra={"url": "mongodb://fleet:hunter2@db.example:27017/podfleet"})
    assert records(stream)[0]["url"] == f"mongodb://{MASK}@db.example:27017/podfleet"


def test_the_console_style_is_masked_too(stream: io.StringIO) -> None:
    console = io.StringIO()
    configure_logs(LogOptions(style="console", secrets=(SECRET,)), console)
    log.info("store.asked", extra={"secret": "x", "text": SECRET})
    assert "store.asked" in console.getvalue()
    assert SECRET not in console.getvalue()
    assert stream.getvalue() == ""  # one log, not two


def test_the_options_do_not_print_their_secrets() -> None:
    assert SECRET not in repr(LogOptions(secrets=(SECRET,)))
