"""The parts of the client of load that need no server: what is asked, when, and what answers are worth."""

from __future__ import annotations

import random
import statistics
from itertools import islice, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.text.traffic import Audio, Fixed, Picture, Rerank
from stages.engines.load.arrivals import due_after_s
from stages.engines.load.histogram import Histogram
from stages.engines.load.measurement import Answered, Measurement
from stages.engines.load.plan import Limits, Load, Target
from stages.engines.load.prompts import WORDS, Prompts, Scale
from stages.engines.load.stream import LINE_BYTES_MAX, BadAnswer, Reading, read_embeddings

SECONDS = st.floats(1e-6, 3_600.0)


def answered(ttft_s: float | None = 1.0, e2e_s: float = 3.0, **more: Any) -> Answered:
    fields: dict[str, Any] = {
        "due_s": 9.0, "timed_s": 10.0, "sent_s": 10.5, "first_s": None if ttft_s is None else 10.0 + ttft_s,
        "ended_s": 10.0 + e2e_s, "wanted_in": 8, "tokens_in": 9, "tokens_out": 5, "is_counted": True,
    }  # fmt: skip
    return Answered(**fields | more)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "either a concurrency or a rate"),
        ({"concurrency": 1, "rate_per_s": 1.0}, "either a concurrency or a rate"),
        ({"concurrency": 0}, "from 1 to 1,024"),
        ({"rate_per_s": 0.0}, "above 0"),
        ({"rate_per_s": float("nan")}, "above 0"),
        ({"concurrency": 1, "requests": 0}, "from 1 to 100,000"),
        ({"concurrency": 1, "warmup": -1}, "from 0 to 10,000"),
        ({"concurrency": 1, "limit_s": 0.0}, "a limit is above 0"),
        ({"concurrency": 1, "request_s": float("inf")}, "a limit is above 0"),
        ({"concurrency": 1, "shared_prefix_tokens": 10_000_000}, "a shared prefix"),
        (
            {"concurrency": 1, "scenario": Rerank(8, 8)},
            r"R\(8,8\) asks for rerank, which no client here speaks",
        ),
        ({"concurrency": 1, "scenario": Picture(8, 8)}, r"I\(8,8\) asks for images"),
        ({"concurrency": 1, "scenario": Audio(8)}, r"A\(8\) asks for audio"),
    ],
)
def test_a_load_that_cannot_be_is_refused_with_words(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Load(**{"scenario": Fixed(1, 1)} | more)


@pytest.mark.parametrize(
    "more",
    [
        {"base_url": "ftp://host/v1"}, {"base_url": "http:///v1"}, {"base_url": "http://host/v1?a=b"},
        {"model": ""}, {"model": "x" * 1_001}, {"key": "two\r\nlines"}, {"key": "a b"}, {"key": "schlüssel"},
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_asked_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"http://HOST|characters|letters"):
        Target(**{"base_url": "http://127.0.0.1:1/v1", "model": "m"} | more)
    assert "secret" not in repr(Target(base_url="http://127.0.0.1:1/v1", model="m", key="secret"))


@settings(max_examples=30)
@given(st.integers(1, 40_000), st.integers(0, 1_000), st.floats(0.25, 4.0), st.floats(0.0, 50.0))
def test_a_prompt_has_the_tokens_that_were_asked_for(
    tokens: int, shared: int, per_word: float, beside: float
) -> None:
    scale = Scale(per_word, beside)
    prompts = Prompts("seed", scale, shared)
    words = prompts.next(tokens).split(" ")
    assert len(words) == scale.words(tokens)
    assert set(words) <= set(WORDS)
    if len(words) > 1:
        assert abs(len(words) * per_word + beside - tokens) <= max(per_word, beside + per_word - tokens)
    again = Prompts("seed", scale, shared)
    assert [again.next(tokens).split(" "), again.next(9)] == [words, prompts.next(9)]


def test_the_scale_is_that_of_two_prompts_where_it_can_be() -> None:
    assert Scale.between((16, 7 + 24), (80, 7 + 120)) == Scale(1.5, 7.0, is_measured=True)
    assert Scale.between((16, 46), (80, 110)).words(64) == 34
    for few, many in ((9, 9), (9, 1), (0, 9_999_999), (10, 170)):
        assert Scale.between((16, few), (80, many)) == Scale()


def test_requests_arrive_at_their_rate() -> None:
    assert list(islice(due_after_s(4.0, "constant", random.Random(1)), 3)) == [0.0, 0.25, 0.5]
    moments = list(islice(due_after_s(50.0, "poisson", random.Random(1)), 5_000))
    gaps = [after - before for before, after in pairwise(moments)]
    assert min(gaps) > 0
    assert statistics.fmean(gaps) == pytest.approx(0.02, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.02, rel=0.05)


def stream(*texts: str, usage: object = None, end: bool = True) -> bytes:
    lines: list[object] = [{"id": "a", "choices": [{"delta": {"content": each}}]} for each in texts]
    lines.append({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage})
    return (
        b"".join(b"data: %b\r\n\r\n" % msgspec.json.encode(each) for each in lines) + b"data: [DONE]\n" * end
    )


@given(st.lists(st.text(min_size=1), min_size=1, max_size=9), st.lists(st.integers(1, 40)), st.booleans())
def test_a_stream_is_read_the_same_however_it_is_cut(texts: list[str], cuts: list[int], end: bool) -> None:
    data = b": a comment\nevent: x\n" + stream(*texts, usage={"prompt_tokens": 3}, end=end)
    reading, place = Reading(len(texts)), 0
    for number, size in enumerate((*cuts, len(data))):
        reading.feed(data[place : place + size], float(number))
        place += size
    reading.end(99.0)
    assert (reading.chunks, reading.usage.prompt_tokens, reading.id) == (len(texts), 3, "a")
    assert sum(reading.gaps_s) == pytest.approx(reading.last_s - (reading.first_s or 0.0))
    assert reading.done_s == (99.0 if not end else reading.done_s)


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_bytes_are_an_answer_or_refused_by_name(pieces: list[bytes]) -> None:
    reading = Reading(1)
    try:
        for each in pieces:
            reading.feed(each, 1.0)
            reading.feed(b"\ndata: ", 1.0)
        reading.end(2.0)
    except BadAnswer as error:
        assert error.failure in ("malformed", "cut_off", "empty", "stream_error")  # noqa: PT017 - one of many


@pytest.mark.parametrize(
    ("data", "failure"),
    [
        (b"", "malformed"),
        (b'{"choices": []}', "malformed"),
        (b"data: " + b"[" * 100_000 + b"\n", "malformed"),
        (b'data: {"choices": [{"delta": {"content": 7}}]}\n', "malformed"),
        (b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n', "malformed"),
        (b'data: {"usage": {"completion_tokens": 1e99}}\n', "malformed"),
        (b'data: {"choices": [{"delta": {"content": "a"}}]}\n', "cut_off"),
        (b'data: {"choices": []}\ndata: [DONE]\n', "empty"),
        (b'data: {"error": "out of memory"}\n', "stream_error"),
        (b"data: " + b"x" * (LINE_BYTES_MAX + 1), "too_large"),
        (b":\n" * (1 << 20), "too_large"),
    ],
)
def test_what_is_no_answer_has_a_name(data: bytes, failure: str) -> None:
    reading = Reading(1)
    with pytest.raises(BadAnswer) as caught:  # noqa: PT012 - either of them
        reading.feed(data, 1.0)
        reading.end(1.0)
    assert caught.value.failure == failure


def test_embeddings_are_read_or_refused_by_name() -> None:
    assert (
        read_embeddings(b'{"data": [{"embedding": [1]}], "usage": {"prompt_tokens": 4}}').prompt_tokens == 4
    )
    assert read_embeddings(b'{"data": [{"embedding": "AAAA"}]}').prompt_tokens is None
    for body, failure in (
        *((b"", "malformed"), (b'{"data": 3}', "malformed"), (b"[" * 100_000, "malformed")),
        *((b'{"data": []}', "empty"), (b'{"data": [{"embedding": []}]}', "empty")),
    ):
        with pytest.raises(BadAnswer, match=failure):
            read_embeddings(body)


@given(st.lists(SECONDS, min_size=1, max_size=60), st.lists(SECONDS, max_size=60))
def test_percentiles_are_right_within_a_thousandth_also_when_merged(
    one: list[float], two: list[float]
) -> None:
    whole, part = Histogram(), Histogram()
    for each in one:
        whole.add(each)
    for each in two:
        part.add(each)
    whole.merge(part)
    ranked = sorted((*one, *two))
    values = whole.values("e2e")
    for percent in (50, 90, 95, 99):
        nearest = ranked[-(-percent * len(ranked) // 100) - 1]
        assert values[f"e2e_p{percent}_s"] == pytest.approx(nearest, rel=0.00101)
    assert values["e2e_mean_s"] == pytest.approx(statistics.fmean(ranked))
    assert values["e2e_max_s"] == ranked[-1]
    assert len(whole) == len(ranked)
    assert Histogram().values("e2e") == {}


def test_an_answer_is_timed_from_one_moment() -> None:
    one = answered()
    assert (one.ttft_s, one.e2e_s, one.tpot_s) == (1.0, 3.0, 0.5)
    assert answered(tokens_out=1).tpot_s is None
    assert answered(None).ttft_s is None


@pytest.mark.parametrize(
    ("limits", "is_good"),
    [
        (Limits(), True),
        (Limits(ttft_s=1.0, tpot_s=0.5, e2e_s=3.0), True),
        (Limits(ttft_s=0.9), False),
        (Limits(tpot_s=0.4), False),
        (Limits(e2e_s=2.9), False),
    ],
)
def test_goodput_is_what_keeps_every_limit(limits: Limits, is_good: bool) -> None:
    found = Measurement(limits=limits, seconds=2.0)
    found.add(answered())
    found.add(answered(failure="500"))
    assert found.values()["goodput_per_s"] == 0.5 * is_good
    assert found.values()["good_rate"] == 0.5 * is_good


def test_measurements_that_are_merged_are_one_that_took_longer() -> None:
    parts = [Measurement(seconds=2.0, processor_s=1.0), Measurement(seconds=3.0, warmup_errors=1)]
    whole = Measurement(seconds=5.0, processor_s=1.0, warmup_errors=1)
    for number in range(8):
        one = answered(
            1.0 + number, 20.0, gaps_s=(0.25, 0.5), is_counted=number != 5, said="too many",
            failure="429" if number == 7 else "",
        )  # fmt: skip
        parts[number % 2].add(one)
        whole.add(one)
    merged = Measurement.merged(parts)
    assert merged.values() == whole.values()
    assert (merged.failures, merged.said, merged.tokens_from) == (
        {"429": 1}, {"429": "too many"}, "counted from chunks",
    )  # fmt: skip
    assert (merged.values()["requests"], merged.values()["requests_per_s"]) == (8, 7 / 5.0)
    assert Measurement.merged([parts[0]]).values() == parts[0].values()
    assert Measurement().values()["error_rate"] == 0.0
