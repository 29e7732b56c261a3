"""What is said one by one is heard together; what somebody waits for, what is much or comes last, at once."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from events.catalog import RunCompleted
from events.delivery.event_encoder import fact_frame
from events.delivery.pipe import Checkpoint, FactFrame, FromChild, Made, Ready, encode
from pod_worker.child import pipe_reader
from pod_worker.child.pipe_reader import FEW_BYTES, LOG_LINE_MAX, RENEWED_MAX, PipeReader, log_frame

FIRST, SECOND = (log_frame(text, "info") for text in ("first", "second"))
MADE = Made("/file", "file", "text/plain")
SOON_S = 30.0


@dataclass
class Speaker:
    """The child's ends of the pipes, and what was told of what went through them."""

    events: int
    death: int
    told: queue.SimpleQueue[FromChild] = field(default_factory=queue.SimpleQueue)

    def say(self, *frames: FromChild) -> None:
        os.write(self.events, b"".join(map(encode, frames)))

    def die(self) -> None:
        if self.death >= 0:
            os.close(self.death)
            self.death = -1

    def heard(self) -> FromChild:
        return self.told.get(timeout=SOON_S)


@pytest.fixture
def speaker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Speaker]:
    monkeypatch.setattr(pipe_reader, "REST_S", 10 * SOON_S)  # longer than any test waits
    pipes = {name: os.pipe() for name in ("events", "stdout", "stderr", "death")}
    for name, (reader, _) in pipes.items():
        os.set_blocking(reader, name == "death")
    events, stdout, stderr, death = (reader for reader, _ in pipes.values())
    ears = PipeReader(events=events, stdout=stdout, stderr=stderr, death=death)
    speaker = Speaker(pipes["events"][1], pipes["death"][1])
    thread = threading.Thread(target=ears.listen, args=(speaker.told.put,))
    thread.start()
    yield speaker
    speaker.die()
    thread.join()
    ears.close()
    for name in ("events", "stdout", "stderr"):
        os.close(pipes[name][1])


def test_after_a_word_it_rests_unless_the_child_dies(speaker: Speaker) -> None:
    speaker.say(FIRST)
    assert speaker.heard() == FIRST
    speaker.say(SECOND)
    with pytest.raises(queue.Empty):
        speaker.told.get(timeout=0.05)
    speaker.die()
    assert speaker.heard() == SECOND


def test_a_rest_is_over_soon(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_reader, "REST_S", 0.01)
    for word in (FIRST, SECOND):
        speaker.say(word)
        assert speaker.heard() == word


@pytest.mark.parametrize(
    "frame", [Ready(["probe"]), fact_frame(RunCompleted()), MADE, Checkpoint(1, "node", [MADE])], ids=type
)
def test_after_what_somebody_waits_for_it_does_not_rest(speaker: Speaker, frame: FromChild) -> None:
    speaker.say(FIRST, frame)
    assert [speaker.heard(), speaker.heard()] == [FIRST, frame]
    speaker.say(SECOND)
    assert speaker.heard() == SECOND


def test_after_much_it_does_not_rest(speaker: Speaker) -> None:
    much = log_frame("x" * FEW_BYTES, "info")
    speaker.say(much)
    assert speaker.heard() == much
    speaker.say(SECOND)
    assert speaker.heard() == SECOND


def _line(kind: str, fields: str) -> bytes:
    return f'{{"frame":"{kind}",{fields}}}'.encode()


def _made(**changes: object) -> bytes:
    fields = {"path": "/file", "name": "file", "content_type": "text/plain", **changes}
    return _line("made", json.dumps(fields)[1:-1])


NO_FRAMES = {
    "nothing": b"",
    "no JSON": b"\x00",
    "no UTF-8": _line("said", '"type":"ai.run.log","data":{"message":"?"}').replace(b"?", b"\xed\xa0\x80"),
    "no end in sight": _line("said", '"type":"x","data":{"a":' + "[" * 50_000 + "]" * 50_000 + "}"),
    "as deep as is read": _line("said", '"type":"x","data":{"a":' + "[" * 800 + "]" * 800 + "}"),
    "an end without its reason": _line("said", '"type":"ai.run.failed","data":{}'),
    "an end of another type": _line("said", '"type":"ai.run.completed","data":{"summary":5}'),
    "a type without end": _line("said", f'"type":"{"x" * 1_000}","data":{{}}'),
    "a checkpoint of nothing": _line("checkpoint", '"number":1,"name":"x","files":[]'),
    "a checkpoint of everything": _line(
        "checkpoint", f'"number":1,"name":"x","files":[{",".join([_made().decode()] * 300)}]'
    ),
    "a number that is none": _line(
        "checkpoint", f'"number":{10**30},"name":"x","files":[{_made().decode()}]'
    ),
    "a path with a zero byte": _made(path="/a\0b/c"),
    "a path from here": _made(path="file"),
    "a path without end": _made(path="/a" * 10_000),
    "a file without a name": _made(name=""),
    "a content type without end": _made(content_type="t" * 1_000),
    "a stage without end": _made(stage="s" * 1_000),
    "kinds without end": _line("ready", f'"kinds":{json.dumps(["x"] * 2_000)}'),
}


@pytest.mark.parametrize("name", NO_FRAMES)
def test_what_is_no_frame_is_dropped_with_a_warning(speaker: Speaker, name: str) -> None:
    os.write(speaker.events, NO_FRAMES[name] + b"\n" + encode(MADE))
    dropped = speaker.heard()
    assert isinstance(dropped, FactFrame)
    assert dropped.data["level"] == "warning"
    assert dropped.data["message"].startswith("a frame could not be read and was dropped: ")
    assert len(dropped.data["message"]) < 400
    assert speaker.heard() == MADE, "what comes behind it is heard"


VALUE = "a secret of this run"
LINES = "first line of a key\r\nsecond line of a key\n"


def printed(*chunks: str, hidden: tuple[str, ...] = (VALUE, LINES), renewed: Sequence[str] = ()) -> list[str]:
    """Return the lines of the log of a child that prints this."""
    pipes = {name: os.pipe() for name in ("events", "stdout", "stderr", "death")}
    for reader, _ in pipes.values():
        os.set_blocking(reader, False)
    ears = PipeReader(**{name: reader for name, (reader, _) in pipes.items()})
    ears.hide(hidden)
    for each in renewed:
        ears.hide_renewed([each])
    told: list[FromChild] = []
    thread = threading.Thread(target=ears.listen, args=(told.append,))
    thread.start()
    for chunk in chunks:
        os.write(pipes["stdout"][1], chunk.encode())
    os.write(pipes["events"][1], encode(log_frame(f"an error quotes {VALUE}", "error")))
    for _, writer in pipes.values():
        os.close(writer)
    thread.join()
    ears.close()
    assert not any(VALUE in str(each) for each in told)
    return [each.data["message"] for each in told if isinstance(each, FactFrame)]


def test_what_is_hidden_is_in_no_line_and_in_no_fact() -> None:
    lines = printed(f"it is {VALUE}!\nshort\n", hidden=(VALUE, "short"))
    assert sorted(lines) == ["an error quotes ***", "it is ***!", "short"]


def test_what_takes_the_place_of_a_hidden_value_is_hidden_beside_it() -> None:
    new = [f"renewed-value-{number:02}" for number in range(RENEWED_MAX + 1)]
    lines = printed(f"from {VALUE} to {new[-1]}\n{new[1]}\n{new[0]}\n", renewed=new)
    assert sorted(lines) == ["***", "an error quotes ***", "from *** to ***", new[0]]


def test_each_line_of_what_is_hidden_is_hidden_by_itself() -> None:
    assert sorted(printed(LINES)) == ["***", "***", "an error quotes ***"]


def test_what_is_hidden_is_hidden_where_a_long_line_is_cut() -> None:
    long = "x" * 9_990 + "y" * (LOG_LINE_MAX - 10)
    for before in (LOG_LINE_MAX - 5, LOG_LINE_MAX - 1, LOG_LINE_MAX, 2 * LOG_LINE_MAX - 7):
        text = "x" * before + VALUE + "z" * 20_000
        lines = printed(text[: before + 3], text[before + 3 : 20_000], text[20_000:] + "\n")
        whole = "".join(each for each in lines if "quotes" not in each)
        assert whole == "x" * before + "***" + "z" * 20_000
        assert max(map(len, lines)) <= LOG_LINE_MAX
    assert "***" in printed(long[:5_000], long[5_000:] + "\n", hidden=(long, VALUE))
