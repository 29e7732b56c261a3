"""The worker's log, and what must never stand in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.logs import MASK, LogOptions, Mask, configure_logs

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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mongodb://fleet:hunt@er2@db:27017/p refused", f"mongodb://{MASK}@db:27017/p refused"),
        ("see http://h/a?b=1, write to me@h", "see http://h/a?b=1, write to me@h"),
        ("PUT https://s3/k?a=1&X-Amz-Signature=abc&x=1", f"PUT https://s3/k?a=1&X-Amz-Signature={MASK}&x=1"),
        ("https://h/v1?api_key=abc 'x'", f"https://h/v1?api_key={MASK} 'x'"),
        (f"wrong key pf_pod_{'a1B' * 14}X_0Zz9aB!", f"wrong key {MASK}!"),
        ("the token= and key=s of a text", "the token= and key=s of a text"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked_though_nobody_named_it(text: str, shown: str) -> None:
    assert Mask(()).text(text) == shown


def test_of_an_address_that_is_secret_the_password_is_too() -> None:
    mask = Mask(
        ["mongodb://fleet:hunter2%40home@db/fleet", "http://only-a-token@h/", "x://fleet12:fleet12@h"]
    )
    said = mask.text("tried hunter2@home, hunter2%40home, only-a-token; fleet12 knows nothing of this")
    assert said == f"tried {MASK}, {MASK}, {MASK}; fleet12 knows nothing of this"


def test_empty_and_tiny_values_are_no_secrets() -> None:
    assert Mask(["", "a"]).text("banana") == "banana"


def test_of_two_secrets_the_longer_one_is_masked_whole() -> None:
    assert Mask(["abcd", "abcdefgh"]).text("<abcdefgh>") == f"<{MASK}>"


@given(before=st.text(), after=st.text())
def test_no_text_around_a_secret_lets_it_through(before: str, after: str) -> None:
    assert SECRET not in Mask([SECRET]).text(before + SECRET + after)


def test_the_console_style_is_masked_too(stream: io.StringIO) -> None:
    console = io.StringIO()
    configure_logs(LogOptions(style="console", secrets=(SECRET,)), console)
    log.info("store.asked", extra={"secret": "x", "text": SECRET})
    assert "store.asked" in console.getvalue()
    assert SECRET not in console.getvalue()
    assert stream.getvalue() == ""  # one log, not two


def test_the_options_do_not_print_their_secrets() -> None:
    assert SECRET not in repr(LogOptions(secrets=(SECRET,)))
