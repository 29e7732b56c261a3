"""The socket that the control plane listens on."""

from __future__ import annotations

import socket

from control_plane.server.http.listeners import bound


def test_no_answer_on_a_kept_connection_waits_for_the_client_to_confirm_its_first_half() -> None:
    with bound("127.0.0.1", 0, "--port") as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
