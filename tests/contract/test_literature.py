"""Look-ups in an index of publications: what they give, and that their failures have words."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from events.runtime.clock import SystemClock
from events.runtime.egress_policy import read_egress_policy
from events.runtime.errors import PipelineError
from events.testing import ManualClock, SeededIds
from stages.adapters import literature
from stages.adapters.literature import GraphIndex, open_literature
from stages.ports.literature import LookUpFailed, Work
from tests.integration.programs.model_server import (
    ModelServer,
    Reply,
    broken_off,
    failing,
    late,
    malformed,
    rate_limited,
)

HERE = read_egress_policy("127.0.0.1")
PAPER: Mapping[str, Any] = {
    "title": "On  Labels\nand Smoothing",
    "authors": [{"authorId": "1", "name": "A. Author"}, {"name": None}, {"name": "B. Writer"}],
    "year": 2019,
    "venue": "Proceedings",
    "url": "https://example.org/paper/1",
    "abstract": "We smooth.",
}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def index(server: ModelServer) -> GraphIndex:
    return GraphIndex(base_url=server.url, clock=ManualClock(), ids=SeededIds(), egress=HERE)


def test_works_come_as_the_index_has_them() -> None:
    with ModelServer([Reply(papers=(PAPER,))]) as server:
        works = index(server).search("label  smoothing", 5)
    assert works == [
        Work(
            title="On Labels and Smoothing",
            authors=("A. Author", "B. Writer"),
            year=2019,
            venue="Proceedings",
            url="https://example.org/paper/1",
            abstract="We smooth.",
        )
    ]
    asked = server.asked[0].body
    assert (asked["query"], asked["limit"]) == ("label smoothing", "5")
    assert set(asked["fields"].split(",")) == {"title", "authors", "year", "venue", "url", "abstract"}


def test_no_more_come_than_were_asked_for_and_none_without_a_title() -> None:
    papers = (
        {"title": None}, {"title": " "}, {"title": "a", "url": "javascript:x"}, {"title": "b", "year": -4},
        PAPER, PAPER,
    )  # fmt: skip
    with ModelServer([Reply(papers=papers)]) as server:
        works = index(server).search("x", 3)
    assert works[:2] == [Work(title="a"), Work(title="b")]
    assert len(works) == 3


def test_nothing_is_asked_for_nothing() -> None:
    with ModelServer() as server:
        assert index(server).search(" ", 3) == []
        assert index(server).search("x", 0) == []
    assert server.asked == []


@pytest.mark.parametrize("step", [rate_limited("0"), rate_limited(None), failing(500), failing(503)])
def test_a_busy_index_is_asked_once_more(step: Reply) -> None:
    with ModelServer([step, Reply(papers=(PAPER,))]) as server:
        assert len(index(server).search("x", 1)) == 1
    with ModelServer(lambda _: step) as server, pytest.raises(LookUpFailed, match="answers"):
        index(server).search("x", 1)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "step",
    [
        rate_limited("3600"),
        failing(403),
        failing(404),
        Reply(status=302, headers={"location": "http://elsewhere.invalid/"}),
        malformed(),
        malformed(b""),
        malformed(b"[" * 100_000),
        malformed(b'{"data": "none"}'),
        malformed(b'{"data": [{"title": 3}]}'),
        malformed(b"\xff\xfe"),
        malformed(b"<html>"),
        Reply(body=json.dumps({"data": [{"title": "x" * 3_000_000}]}).encode()),
        broken_off(),
    ],
)
def test_whatever_else_comes_back_is_a_failed_look_up(step: Reply) -> None:
    with ModelServer([step]) as server, pytest.raises(LookUpFailed) as caught:
        index(server).search("x", 1)
    assert str(caught.value)
    assert len(server.asked) == 1


def test_odd_texts_can_be_carried_further() -> None:
    odd = {"title": "a\ud800\0b" + "x" * 9_000, "abstract": "\u2028" * 3, "authors": None}
    with ModelServer([Reply(papers=(odd,))]) as server:
        (work,) = index(server).search("\ud800 x\0", 1)
    work.title.encode()
    assert "\0" not in work.title
    assert len(work.title) <= 500


def test_a_late_index_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literature, "TIME_MAX_S", 0.5)
    with ModelServer([late(30)]) as server, pytest.raises(LookUpFailed, match="within"):
        index(server).search("x", 1)


def test_an_index_that_is_not_there_is_told() -> None:
    with ModelServer() as server:
        gone = index(server)
    with pytest.raises(LookUpFailed, match="cannot be reached"):
        gone.search("x", 1)


def test_an_index_is_opened_where_one_is_named() -> None:
    clock, ids = SystemClock(), SeededIds()
    assert open_literature(None, clock=clock, ids=ids, egress=HERE) is None
    assert open_literature(" ", clock=clock, ids=ids, egress=HERE) is None
    for wrong in ("index.example.org", "http://[::1]:80/"):
        with pytest.raises(PipelineError, match="PODFLEET_LITERATURE_URL"):
            open_literature(wrong, clock=clock, ids=ids, egress=HERE)
    with ModelServer([Reply(papers=(PAPER,))]) as server:
        stop = threading.Event()
        opened = open_literature(f"{server.url}/", clock=clock, ids=ids, stop=stop, egress=HERE)
        assert opened is not None
        assert len(opened.search("x", 1)) == 1
