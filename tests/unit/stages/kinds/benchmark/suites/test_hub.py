"""Data sets from a hub: fetched once, whole, at a pinned revision, and from allowed addresses alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from events.runtime.egress_policy import EgressPolicy, read_egress_policy
from events.runtime.errors import Canceled
from stages.kinds.benchmark.__main__ import fetch, main
from stages.kinds.benchmark.suites.catalogue import SUITES
from stages.kinds.benchmark.suites.data import hub
from stages.kinds.benchmark.suites.data.hub import fetched
from stages.kinds.benchmark.suites.data.local import local_files
from stages.kinds.benchmark.suites.data.sources import DataRefused, DataSources, NeedsSetup
from stages.kinds.benchmark.suites.item import Source

CONTENT = b'{"question": "?", "answer": "#### 1"}\n'
SOURCE = Source(name="somebody/set", revision="a" * 40, files=("main/test.jsonl",))
PATH = f"/datasets/somebody/set/resolve/{'a' * 40}/main/test.jsonl"


@dataclass
class Hub:
    """A hub on loopback; `answers` are given one after the other, the last one again and again."""

    answers: list[Callable[[BaseHTTPRequestHandler], None]]
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""


def answer(status: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def give(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return give


@pytest.fixture
def a_hub() -> Iterator[Hub]:
    told = Hub([answer(200, CONTENT)])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append((self.path, self.headers["Authorization"]))
            told.answers[min(len(told.asked), len(told.answers)) - 1](self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        told.url = f"http://127.0.0.1:{server.server_port}"
        yield told
        server.shutdown()
        thread.join()


@pytest.fixture
def sources(a_hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataSources:
    monkeypatch.setattr(hub, "WAIT_S", 0.0)
    egress = read_egress_policy("127.0.0.1")
    return DataSources(folders=(), cache=tmp_path / "cache", hub=a_hub.url, egress=egress, token="of a user")


def test_a_file_is_fetched_once_at_its_revision(a_hub: Hub, sources: DataSources) -> None:
    (path,) = fetched(SOURCE, sources)
    assert path.read_bytes() == CONTENT
    assert fetched(SOURCE, sources) == [path]
    assert a_hub.asked == [(PATH, "Bearer of a user")]
    assert fetched(SOURCE, replace(sources, hub="")) == [path]
    assert sorted(each.name for each in path.parent.iterdir()) == ["test.jsonl", "test.jsonl.sha256"]


def test_a_file_that_was_changed_in_the_cache_is_fetched_again(a_hub: Hub, sources: DataSources) -> None:
    (path,) = fetched(SOURCE, sources)
    path.write_bytes(b"changed")
    assert fetched(SOURCE, sources)[0].read_bytes() == CONTENT
    assert len(a_hub.asked) == 2


def test_a_known_digest_is_held(a_hub: Hub, sources: DataSources) -> None:
    good = replace(SOURCE, sha256={"main/test.jsonl": sha256(CONTENT).hexdigest()})
    other = replace(SOURCE, revision="b" * 40, sha256={"main/test.jsonl": "0" * 64})
    assert fetched(good, sources)[0].read_bytes() == CONTENT
    with pytest.raises(DataRefused, match="another digest"):
        fetched(other, sources)
    assert list((sources.cache / "somebody--set" / ("b" * 40)).rglob("*.*")) == []


def test_what_is_behind_a_gate_says_how_to_get_in(a_hub: Hub, sources: DataSources) -> None:
    a_hub.answers = [answer(403)]
    with pytest.raises(NeedsSetup, match="accept the terms"):
        fetched(replace(SOURCE, access="accept the terms"), sources)


def test_what_the_hub_lacks_is_refused(a_hub: Hub, sources: DataSources) -> None:
    a_hub.answers = [answer(404)]
    with pytest.raises(DataRefused, match=r"no test\.jsonl at this revision"):
        fetched(SOURCE, sources)


def test_a_hub_that_fails_is_asked_again(a_hub: Hub, sources: DataSources) -> None:
    cut = answer(200, CONTENT, Content_Length="1000")
    a_hub.answers = [
        answer(503),
        lambda handler: cut(handler) or setattr(handler, "close_connection", True),
        answer(200, CONTENT),
    ]
    assert fetched(SOURCE, sources)[0].read_bytes() == CONTENT
    a_hub.answers = [answer(503)]
    with pytest.raises(NeedsSetup, match="answers 503"):
        fetched(replace(SOURCE, revision="c" * 40), sources)


def test_a_file_has_a_bound(a_hub: Hub, sources: DataSources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "FILE_BYTES_MAX", 10)
    with pytest.raises(DataRefused, match="more than 10 bytes"):
        fetched(SOURCE, sources)
    a_hub.answers = [
        lambda handler: (handler.send_response(200), handler.end_headers(), handler.wfile.write(CONTENT))[0]
    ]
    with pytest.raises(DataRefused, match="more than 10 bytes"):
        fetched(SOURCE, sources)


def test_a_redirect_is_followed_to_allowed_addresses_alone(a_hub: Hub, sources: DataSources) -> None:
    a_hub.answers = [answer(302, Location="/elsewhere"), answer(200, CONTENT)]
    assert fetched(SOURCE, sources)[0].read_bytes() == CONTENT
    a_hub.answers = [answer(302, Location="http://169.254.169.254/latest")]
    with pytest.raises(NeedsSetup, match=r"169\.254\.169\.254 is no public address"):
        fetched(replace(SOURCE, revision="c" * 40), sources)
    a_hub.answers = [answer(302, Location="/round")]
    with pytest.raises(NeedsSetup, match="redirect"):
        fetched(replace(SOURCE, revision="d" * 40), sources)


def test_nothing_is_asked_at_an_address_that_is_not_allowed(a_hub: Hub, sources: DataSources) -> None:
    with pytest.raises(NeedsSetup, match="no public address"):
        fetched(SOURCE, replace(sources, egress=EgressPolicy()))
    assert a_hub.asked == []


def test_a_stop_ends_a_download(sources: DataSources) -> None:
    sources.stop.set()
    with pytest.raises((Canceled, NeedsSetup)):
        fetched(SOURCE, replace(sources, hub="http://127.0.0.1:9"))


def test_an_offline_pod_says_which_files_are_missing(sources: DataSources) -> None:
    with pytest.raises(NeedsSetup, match=r"main/test\.jsonl.*PODFLEET_DATASETS"):
        fetched(SOURCE, replace(sources, hub=""))


def test_what_is_fetched_for_a_machine_is_found_by_its_runs_without_a_hub(
    a_hub: Hub, sources: DataSources, tmp_path: Path
) -> None:
    others = tuple(replace(SOURCE, name=f"of/{each}", files=("test.jsonl",)) for each in ("B", "a"))
    for name, of in (("one", (SOURCE,)), ("two", others)):
        suite = replace(SUITES["gsm8k"], split="", name=name, sources=of, local=(name,))
        paths = fetch(suite, tmp_path / "shared", sources)
        asked = len(a_hub.asked)
        assert fetch(suite, tmp_path / "shared", sources) == paths
        assert len(a_hub.asked) == asked, "it is there"
        assert local_files(suite, (tmp_path / "shared",)) == paths
        assert [each.read_bytes() for each in paths] == [CONTENT] * len(of)


def test_a_data_set_that_cannot_be_fetched_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gsm8k", "--into", str(tmp_path)], {"PODFLEET_HUB_URL": "none"}) == 1
    assert "put its files" in capsys.readouterr().err
