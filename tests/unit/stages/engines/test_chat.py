"""What an engine says in pieces, and an endpoint's name, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.models.endpoints import endpoints, read_endpoints
from stages.engines.chat.library import LAYERS_MAX, Pull
from stages.engines.chat.reading import ChatReading, OllamaReading, OwnTimes
from stages.engines.chat.said import Said
from stages.engines.load.client import Got
from stages.engines.load.stream import BadAnswer

CUTS = st.lists(st.integers(0, 200), max_size=8)


def cut(text: str, places: list[int]) -> list[str]:
    """Return a text in pieces."""
    ends = sorted({each for each in places if each < len(text)} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(st.text(max_size=200), CUTS, CUTS)
def test_a_text_is_byte_for_byte_what_was_said_wherever_it_is_cut(
    text: str, places: list[int], packets: list[int]
) -> None:
    """Each piece is escaped as UTF-16 has it, so that cuts go through the middle of characters."""
    halves = text.encode("utf-16-le", "surrogatepass")
    units = [halves[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(halves), 2)]
    pieces = cut("".join(units), places)
    lines = [b"data: " + json.dumps({"choices": [{"delta": {"content": each}}]}).encode() for each in pieces]
    end = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    stream = b"".join(line + b"\n\n" for line in lines) + end
    reading, shown = ChatReading(10_000), ""
    for packet in cut(stream.decode("latin-1"), packets):
        reading.feed(packet.encode("latin-1"), 1.0)
        shown += reading.taken()
    reading.end(2.0)
    shown += reading.close()
    assert bytes(reading.said.data) == text.encode() == shown.encode()
    assert (reading.reason, reading.said.replaced, reading.said.chars) == ("stop", 0, len(text))


@given(st.text(max_size=60), CUTS)
def test_bytes_that_pieces_divide_are_one_text_again(text: str, places: list[int]) -> None:
    said, shown = Said(), ""
    for piece in cut(text.encode().decode("latin-1"), places):
        raw = piece.encode("latin-1").decode(errors="surrogateescape")
        shown += said.add(raw, is_raw=True)
    shown += said.end()
    assert (bytes(said.data), shown) == (text.encode(), text)


def test_half_a_character_has_no_bytes_and_is_counted() -> None:
    said = Said()
    shown = said.add("a\ud83d") + said.add("b\udc80") + said.add("\ud83d") + said.end()
    assert shown == said.data.decode() == "a\ufffdb\ufffd\ufffd"
    assert (said.replaced, said.chars) == (3, 5)


def ollama(*lines: object) -> OllamaReading:
    reading = OllamaReading(100)
    for line in lines:
        reading.feed((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n", 1.0)
    return reading


def test_ollama_says_its_times_with_its_last_line() -> None:
    word = {"message": {"content": "word "}, "done": False}
    end = {"message": {"content": ""}, "done": True, "eval_count": 2, "eval_duration": 10_000_000}
    reading = ollama(word, word, {**end, "prompt_eval_duration": 3_000_000, "prompt_eval_count": 9})
    reading.end(2.0)
    assert (bytes(reading.said.data), reading.chunks, reading.reason) == (b"word word ", 2, "stop")
    assert reading.own == OwnTimes(0.003, 200.0)
    assert (reading.usage.prompt_tokens, reading.usage.completion_tokens) == (9, 2)
    assert ollama(word, end, word).is_overrun
    with pytest.raises(BadAnswer, match="cut_off"):
        ollama(word).end(2.0)


class Pieces:
    """The body of an answer."""

    def __init__(self, *lines: object) -> None:
        self.content, self._lines = self, lines

    async def iter_any(self) -> AsyncIterator[bytes]:
        for each in self._lines:
            yield json.dumps(each).encode() + b"\n"


def pulled(*lines: object) -> list[tuple[int, str]]:
    """Return what a pull tells of these lines, its shares in percent."""
    told: list[tuple[int, str]] = []
    pull = Pull(lambda share, words: told.append((int(100 * share), words)))
    asyncio.run(pull.read(cast(Any, Pieces(*lines)), Got(0.0)))
    return told


def test_a_pull_tells_how_far_all_layers_are_and_each_percent_once() -> None:
    def layer(digest: str, done: int, total: int = 200) -> dict[str, object]:
        return {"status": f"pulling {digest}", "digest": digest, "completed": done, "total": total}

    honest = [
        {"status": "pulling manifest"},
        layer("a", 100),
        layer("a", 200),
        layer("b", 50),
        layer("b", 200),
    ]
    assert pulled(*honest, {"status": "verifying"}, {"status": "success"}) == [
        (0, "pulling manifest"), (50, "pulling a"), (100, "pulling a")
    ]  # fmt: skip
    assert pulled(layer("b", 0), layer("a", 0, 600), layer("b", 400), layer("a", 600)) == [
        (0, "pulling b"), (25, "pulling b"), (100, "pulling a")
    ]  # fmt: skip
    assert len(pulled(*[layer("a", 2 + 2 * (each % 2)) for each in range(1_000)])) == 2
    assert len(pulled(*[layer(str(each), 200) for each in range(2 * LAYERS_MAX)])) == 1


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ({"error": "model runner has unexpectedly stopped"}, "stream_error"),
        ({"done": True, "eval_count": -2}, "malformed"),
        ({"message": {"content": 7}}, "malformed"),
        ([], "malformed"),
        (b"{nothing", "malformed"),
        (b"[" * 100_000, "malformed"),
    ],
)
def test_a_line_of_ollama_that_is_none_is_named(line: object, failure: str) -> None:
    with pytest.raises(BadAnswer) as refused:
        ollama(line)
    assert refused.value.failure == failure


def test_an_endpoint_is_known_by_a_name_and_its_path_says_how_it_is_spoken_to() -> None:
    found = endpoints({"PODFLEET_ENDPOINTS": " a=http://127.0.0.1:1/api/ , b=https://[::1]:2/v1,"})
    assert {each.name: each.form for each in found.values()} == {"a": "ollama", "b": "openai"}
    assert endpoints({}) == {}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("http://127.0.0.1/v1", "is no name of an endpoint"),
        ("Big=http://127.0.0.1/v1", "is no name of an endpoint"),
        (f"{'x' * 24}=http://127.0.0.1/v1", "is no name of an endpoint"),
        ("a=", "a needs an address"),
        ("a=ftp://127.0.0.1/v1", "a needs an address"),
        ("a=http://u:p@127.0.0.1/v1", "without secrets"),
        ("a=http://127.0.0.1:99999/v1", "a needs an address"),
        ("a=http://[::1/v1", "a needs an address"),
        ("a=http://127.0.0.1/v1?key=1", "a needs an address"),
        ("a=http://h/v1,a=http://i/v1", "a is given twice"),
        (",".join(f"e{each}=http://h/v1" for each in range(9)), "at most 8"),
    ],
)
def test_a_setting_of_endpoints_that_cannot_be_meant_is_told(setting: str, words: str) -> None:
    (problem,) = read_endpoints(setting)[1]
    assert words in problem
