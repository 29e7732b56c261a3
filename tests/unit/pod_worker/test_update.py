"""When a worker installs what its control plane serves, and how; the tests of joining do it with pip."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pod_worker.config import EXTRAS
from pod_worker.machine import update as updating
from pod_worker.machine.update import (
    Served,
    command_of,
    is_due,
    sees_packages_of_the_system,
    update,
    without,
)

SHA = "ab" * 32
SERVED = Served("podfleet-1.1-py3-none-any.whl", "1.1", SHA)


@pytest.mark.parametrize(
    ("version", "noted", "due"),
    [
        ("1.1", {"archive_info": {"hash": f"sha256={SHA}"}}, False),
        ("1.1", {"archive_info": {"hashes": {"sha256": SHA}}}, False),
        ("1.1", {"archive_info": {"hashes": {"sha256": "cd" * 32}}}, True),  # the same name has other bytes
        ("1.0", {"archive_info": {"hash": "sha256=" + "cd" * 32}}, True),
        ("1.0", {"dir_info": {"editable": True}}, False),
        ("1.0", {"dir_info": {}}, True),
        ("1.1", {"dir_info": {}}, False),
        ("1.0", None, True),
        ("1.1", None, False),
        ("1.0", "no JSON", True),
        ("1.0", {"archive_info": None}, True),
    ],
)
def test_another_wheel_than_ours_is_due_and_a_checkout_is_left_alone(
    version: str, noted: Any, due: bool
) -> None:
    text = noted if noted is None or isinstance(noted, str) else json.dumps(noted)
    assert is_due(SERVED, version, text) == due


def test_pip_takes_every_file_by_a_hash() -> None:
    command = command_of("/p/python", "https://f.example", SERVED, "pod,models", has_torch=True)
    assert command[:4] == ["/p/python", "-m", "pip", "install"]
    assert "--require-hashes" in command
    assert command[-1] == f"podfleet @ https://f.example/install/{SERVED.wheel}#sha256={SHA}"
    assert command[-2] == "https://f.example/install/requirements.txt?extras=pod%2Cmodels&torch=own"
    assert "torch" not in command_of("p", "https://f.example", SERVED, "pod", has_torch=False)[-2]


def test_pip_gets_no_secret_and_pytorch_of_the_machine_is_seen(tmp_path: Path) -> None:
    environ = {"PODFLEET_API_KEY": "k3y", "URL": "mongodb://u:k3y@h", "PIP_INDEX_URL": "https://i"}
    assert without(environ, ["k3y"]) == {"PIP_INDEX_URL": "https://i"}
    assert not sees_packages_of_the_system(tmp_path)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr\ninclude-system-site-packages = true\n")
    assert sees_packages_of_the_system(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "pod,", "-r x", "pod models", "pod\n", "POD", "a" * 41, ",".join(["a"] * 21)]
)
def test_extras_are_words_between_commas(text: str) -> None:
    assert EXTRAS.fullmatch(text) is None
    assert EXTRAS.fullmatch("pod,models")


@pytest.fixture
def answers() -> Iterator[tuple[str, list[tuple[int, bytes]]]]:
    """A control plane that answers as the test says."""
    said: list[tuple[int, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = said[-1]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Leave it at that."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", said
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"not here"),
        (200, b"<html>"),
        (200, json.dumps({"wheel": "../../etc/x.whl", "version": "2", "sha256": SHA}).encode()),
        (200, json.dumps({"wheel": "podfleet-2-py3-none-any.whl#x", "version": "2", "sha256": SHA}).encode()),
        (
            200,
            json.dumps({"wheel": "podfleet-2-py3-none-any.whl", "version": "2", "sha256": "-r x"}).encode(),
        ),
    ],
)
def test_a_control_plane_that_lies_or_is_earlier_changes_nothing(
    answers: tuple[str, list[tuple[int, bytes]]], status: int, body: bytes, caplog: Any, monkeypatch: Any
) -> None:
    url, said = answers
    said.append((status, body))
    monkeypatch.setattr(updating, "_install", lambda *_: pytest.fail("it installs"))
    with caplog.at_level(logging.WARNING):
        assert not update(url, "pod", {}, ())
    assert "update.failed" in caplog.text


def test_a_wheel_that_pip_refuses_is_logged_and_the_worker_goes_on(
    answers: tuple[str, list[tuple[int, bytes]]], caplog: Any, monkeypatch: Any
) -> None:
    url, said = answers
    said.append((200, json.dumps({"wheel": SERVED.wheel, "version": "1.1", "sha256": SHA}).encode()))
    monkeypatch.setattr(updating, "is_due", lambda *_: True)
    failing = ["sh", "-c", "echo DO NOT MATCH THE HASHES; exit 1"]
    monkeypatch.setattr(updating, "command_of", lambda *_, **__: failing)
    with caplog.at_level(logging.WARNING):
        assert not update(url, "pod", {"PATH": "/usr/bin:/bin"}, ())
    assert "DO NOT MATCH THE HASHES" in str(caplog.records[-1].__dict__["why"])
