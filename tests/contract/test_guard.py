"""Addresses that a model's server or an index may not have, on real sockets: no byte reaches them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from events.runtime.clock import SystemClock
from events.runtime.egress_policy import read_egress_policy
from events.testing import SeededIds
from stages.adapters.literature import GraphIndex
from stages.adapters.models.opening import open_model
from stages.adapters.models.retrier import Retrier
from stages.models.model import ModelError, Question
from stages.ports.literature import LookUpFailed
from tests.integration.programs.model_server import ModelServer, Reply

QUESTION = Question(purpose="draft", system="Be brief.", text="Say hello.")
PUBLIC = "93.184.215.14"

Ask = Callable[[str], str]  # an address in, the words of the refusal out


@dataclass
class Trap:
    """Listens on loopback, and keeps what whoever connects sends."""

    port: int
    heard: list[bytes] = field(default_factory=list)


@pytest.fixture
def trap() -> Iterator[Trap]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Trap(server.getsockname()[1])

        def listen() -> None:
            while True:
                try:
                    stream, _ = server.accept()
                except OSError:  # closed: the test is over
                    return
                with stream:
                    made.heard.append(stream.recv(1_000))

        thread = threading.Thread(target=listen)
        thread.start()
        yield made
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names lead to, one answer after the other; the last one stays."""
    answers: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        left = answers.get(host.decode() if isinstance(host, bytes) else host)
        address = (left.pop(0) if len(left) > 1 else left[0]) if left else host
        return real(address, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return answers


@pytest.fixture(params=["OPENAI", "ANTHROPIC", "index"])
def ask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask by an adapter what may not be asked; the operator allowed 127.0.0.9 only."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)

    def asked(url: str) -> str:
        if request.param == "index":
            egress = read_egress_policy("127.0.0.9")
            with pytest.raises(LookUpFailed) as failed:
                GraphIndex(base_url=url, clock=SystemClock(), ids=SeededIds(), egress=egress).search("x", 1)
            return str(failed.value)
        environ = {
            f"{request.param}_BASE_URL": f"{url}/v1" if request.param == "OPENAI" else url,
            f"{request.param}_API_KEY": "sk-x",
            "PODFLEET_PRIVATE_HOSTS": "127.0.0.9",
        }
        model = open_model(environ, clock=SystemClock(), ids=SeededIds())
        assert model is not None
        model.retrier = Retrier(clock=SystemClock(), ids=SeededIds(), total_max_s=20)  # type: ignore[attr-defined] # both have one
        with closing(model), pytest.raises(ModelError) as caught:
            model.ask(QUESTION)
        assert caught.value.usages == ()
        return caught.value.message

    return asked


def test_a_name_that_leads_inside_is_not_connected_to(
    ask: Ask, names: dict[str, list[str]], trap: Trap
) -> None:
    names["model.example"] = ["127.0.0.1"]
    said = ask(f"http://model.example:{trap.port}")
    assert "model.example (127.0.0.1) is no public address" in said
    assert "add model.example or 127.0.0.1 to PODFLEET_PRIVATE_HOSTS" in said
    assert trap.heard == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_name_that_leads_inside_the_second_time_gets_no_byte(
    ask: Ask, names: dict[str, list[str]], trap: Trap, scheme: str
) -> None:
    names["model.example"] = [PUBLIC, "127.0.0.1"]
    assert "model.example (127.0.0.1) is no public address" in ask(f"{scheme}://model.example:{trap.port}")
    assert trap.heard in ([b""], [])  # connected to, and left; the listener may not have looked yet


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1"])
def test_other_ways_to_write_an_address_are_no_way_around(ask: Ask, trap: Trap, host: str) -> None:
    assert "is no public address" in ask(f"http://{host}:{trap.port}")
    assert trap.heard == []


def test_a_redirect_leads_nowhere(ask: Ask, names: dict[str, list[str]], trap: Trap) -> None:
    away = Reply(status=307, headers={"location": f"http://127.0.0.1:{trap.port}/"})
    with ModelServer(lambda _: away, host="127.0.0.9") as server:
        assert "307" in ask(server.url)
        assert len(server.asked) == 1
    assert trap.heard == []


def test_a_proxy_may_stand_inside_and_is_asked_for_no_address_that_may_not_be(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, trap: Trap
) -> None:
    with ModelServer(lambda _: Reply(status=418)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert "418" in ask("http://model.example")
        assert len(proxy.asked) == 1
