"""Ports: chosen free, kept where they can be."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.runtime.clock import SystemIds
from events.runtime.errors import ConfigError
from podfleet.embedded import ports


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        yield server


def test_a_port_that_somebody_listens_on_is_not_free(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert not ports.is_free(port)
    assert ports.answers(port)


def test_a_remembered_port_is_used_again(tmp_path: Path) -> None:
    note = tmp_path / "port.json"
    assert ports.remembered(note, SystemIds()) == ports.remembered(note, SystemIds())


def test_a_remembered_port_that_was_taken_is_replaced_and_the_new_one_kept(
    tmp_path: Path, listener: socket.socket
) -> None:
    note = tmp_path / "port.json"
    taken = listener.getsockname()[1]
    note.write_text(f'{{"port": {taken}}}')
    port = ports.remembered(note, SystemIds())
    assert port != taken
    assert ports.remembered(note, SystemIds()) == port


class _Fractions:
    """Ids whose chance is a list."""

    def __init__(self, *fractions: float) -> None:
        self._fractions = list(fractions)

    def fraction(self) -> float:
        return self._fractions.pop(0)

    def ulid(self) -> str:
        raise NotImplementedError

    def token(self) -> str:
        raise NotImplementedError


@pytest.mark.skipif(sys.platform != "linux", reason="other systems let nobody share a port")
def test_a_kept_port_is_not_chosen_by_others_and_can_be_served() -> None:
    kept_port = ports.choose(SystemIds())
    other = ports.choose(SystemIds())
    span = ports.LAST - ports.FIRST + 1
    fractions = [(port - ports.FIRST + 0.5) / span for port in (kept_port, other)]
    with ports.kept(kept_port):
        assert ports.choose(_Fractions(*fractions)) == other
        served = socket.create_server((ports.LOOPBACK, kept_port))
        with served, pytest.raises(ConfigError, match="taken"), ports.kept(kept_port):
            pytest.fail("kept a port that is served")
    assert ports.choose(_Fractions(*fractions)) == kept_port


@pytest.mark.parametrize("noted", ["", "{", "[]", '{"port": "x"}', '{"port": 0}', '{"port": 99999}'])
def test_a_spoilt_note_is_replaced(tmp_path: Path, noted: str) -> None:
    note = tmp_path / "port.json"
    note.write_text(noted)
    assert ports.FIRST <= ports.remembered(note, SystemIds()) <= ports.LAST
