"""A relay on loopback that refuses or delays what comes through it."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

from events.runtime.clock import SystemClock


class Relay:
    """Relays to a server. While it refuses, it answers 403 to all, as a storage where the key is not known.

    Each piece of an answer comes `late_s` seconds late.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self.refuses = False
        self.late_s = 0.0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def refuse(self) -> None:
        """Change the storage's key under the fleet."""
        self.refuses = True
        for each in self._pairs:
            with contextlib.suppress(OSError):  # its other end has gone
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.refuse()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: the test is over
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):  # either end may go
            if self.refuses:
                client.recv(65_536)
                body = b"<Error><Code>InvalidAccessKeyId</Code></Error>"
                client.sendall(
                    b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
                    + body
                )
                return
            with socket.create_connection(self._target) as server:
                self._pairs += [client, server]
                both = {client: server, server: client}
                while True:
                    for each in select.select(list(both), [], [])[0]:
                        piece = each.recv(65_536)
                        if not piece:
                            return
                        if each is server:
                            SystemClock().wait(threading.Event(), self.late_s)
                        both[each].sendall(piece)
