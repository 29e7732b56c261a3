"""The socket that the control plane listens on."""

from __future__ import annotations

import socket
from types import SimpleNamespace

from control_plane.__main__ import _bound


def test_no_answer_on_a_kept_connection_waits_for_the_client_to_confirm_its_first_half() -> None:
    with _bound(SimpleNamespace(host="127.0.0.1", port=0)) as listener:  # type: ignore[arg-type]
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
