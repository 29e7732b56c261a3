"""Sockets with a descriptor that `select.select` does not take."""

from __future__ import annotations

import fcntl
import http.client
import resource
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from events.runtime.errors import Transient
from events.runtime.sockets import is_readable
from pod_worker.child.fork_server import LOADED, ServerProcess
from pod_worker.files.storage import HttpStorage

HIGH = 1100


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return two connected sockets, the first with a high descriptor."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] != resource.RLIM_INFINITY and limits[1] <= HIGH:
        pytest.skip("no process here may have so many descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], HIGH + 100), limits[1]))
    low, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with low, other, socket.socket(fileno=fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH)) as high:
            yield high, other
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_socket_is_readable_once_it_has_data_or_is_at_its_end(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    high, other = pair
    assert high.fileno() >= HIGH
    assert not is_readable(high)
    other.send(b"data")
    assert is_readable(high)
    high.recv(10)
    assert not is_readable(high, 0.001)
    other.close()
    assert is_readable(high)


def test_a_fork_server_is_loaded_once_it_reports_so(pair: tuple[socket.socket, socket.socket]) -> None:
    high, other = pair
    process: Any = subprocess.Popen
    server = ServerProcess(process, high)
    assert not server.is_loaded()
    other.send(LOADED)
    assert server.is_loaded()


def test_a_kept_connection_is_used_again_unless_storage_closed_it(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    high, other = pair
    storage = HttpStorage(ssl.create_default_context())
    kept = http.client.HTTPConnection("storage")
    kept.sock = high
    place = ("http", "storage")
    storage._idle[place] = [kept]
    assert storage._connection(place) is kept
    storage._idle[place] = [kept]
    other.close()
    assert storage._connection(place) is not kept


@pytest.mark.parametrize("named", [True, False])
def test_an_answer_that_names_no_object_is_no_stored_file(named: bool) -> None:
    etag = b'etag: "abc"\r\n' if named else b""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        HttpStorage(ssl.create_default_context()) as storage,
    ):

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\n" + etag + b"content-length: 6\r\n\r\n<html>")

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/b/k"
        if named:
            assert storage.put(url, b"", {}).status == 200
        else:
            with pytest.raises(Transient, match="no storage"):
                storage.put(url, b"", {})
