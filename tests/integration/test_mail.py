"""Mail reaches a real SMTP server, encrypted or not at all, and one that lies holds up nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy

import pytest

from control_plane.config import Mail, read_settings
from control_plane.upkeep.notifications.mailer import Mailer
from events.runtime.errors import ConfigError
from tests.unit.control_plane.test_config import GOOD

pytestmark = pytest.mark.slow("real servers and processes")


@dataclass
class MailServer:
    """A small SMTP server; `answers` are what it says to each command instead of its usual words."""

    answers: dict[str, bytes] = field(default_factory=dict)
    mails: list[bytes] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    port: int = 0

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            # the other side may leave at any word
            with suppress(OSError), connection, connection.makefile("rwb", buffering=0) as stream:
                self._talk(stream)

    def _talk(self, stream: socket.SocketIO) -> None:
        stream.write(b"220 here\r\n")
        while line := stream.readline():
            verb = line[:4].decode("ascii", "replace").upper().strip()
            self.commands.append(verb)
            if verb == "QUIT":
                return
            if verb == "DATA" and verb not in self.answers:
                stream.write(b"354 go on\r\n")
                mail = b""
                while (part := stream.readline()) not in (b".\r\n", b""):
                    mail += part
                self.mails.append(mail)
            reply = self.answers.get(verb, b"250 fine\r\n")
            if not reply:
                stream.readline()  # says nothing more until the other side leaves
                return
            stream.write(reply)


@contextmanager
def serving(**answers: bytes) -> Iterator[MailServer]:
    server = MailServer(answers)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        thread = threading.Thread(target=server.serve, args=(listener,))
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def mailer(server: MailServer, scheme: str = "smtp+plain", time_max_s: float = 30.0) -> Mailer:
    settings = Mail(
        scheme=scheme, host="127.0.0.1", port=server.port, user="", password="", sender="fleet@example.com"
    )
    return Mailer(settings, time_max_s)


async def test_a_mail_arrives_as_it_was_worded() -> None:
    with serving() as server:
        answer = await mailer(server).send("ann@example.com", "msg_1", "Run failed: ä", "first\n.\nlast ä\n")
    assert (answer.status, answer.is_taken) == (250, True)
    (mail,) = server.mails
    read = message_from_bytes(mail, policy=policy.default)
    assert (read["To"], read["From"]) == ("ann@example.com", "podfleet <fleet@example.com>")
    assert read["Subject"] == "Run failed: ä"
    assert read.get_content().splitlines() == ["first", "..", "last ä"]  # a dot is doubled on the way
    assert read["Message-ID"] == "<msg_1@example.com>"


@pytest.mark.parametrize(
    ("answers", "scheme", "problem"),
    [
        ({"RCPT": b"550 nobody\r\n"}, "smtp+plain", "refuses the address"),
        ({"DATA": b"451 later\r\n"}, "smtp+plain", "answers 451 later"),
        ({}, "smtp", "STARTTLS"),
        ({}, "smtps", "SSL"),
        ({"EHLO": b"x" * 9_000 + b"\r\n", "HELO": b"x" * 9_000 + b"\r\n"}, "smtp+plain", "Line too long"),
    ],
)
async def test_what_a_server_does_not_take_is_told(
    answers: dict[str, bytes], scheme: str, problem: str
) -> None:
    with serving(**answers) as server:
        answer = await mailer(server, scheme).send("ann@example.com", "msg_1", "s", "t")
    assert not answer.is_taken
    assert problem in str(answer.problem)
    assert server.mails == []


async def test_a_server_that_says_nothing_is_left_in_time() -> None:
    with serving(RCPT=b"") as server:
        answer = await mailer(server, time_max_s=0.3).send("ann@example.com", "msg_1", "s", "t")
    assert "did not take it within" in str(answer.problem)


async def test_without_a_server_no_mail_is_sent() -> None:
    answer = await Mailer(None).send("ann@example.com", "msg_1", "s", "t")
    assert "PODFLEET_SMTP_URL" in str(answer.problem)


def test_settings_of_mail_name_what_is_wrong() -> None:
    def read(url: str, sender: str = "fleet@example.com") -> Mail | None:
        values = {**GOOD, "PODFLEET_SMTP_URL": url, "PODFLEET_MAIL_FROM": sender}
        return read_settings(values, host="127.0.0.1", port=8700).mail

    found = read("smtp://ann:p%40ss@mail.example")
    assert found == Mail(
        scheme="smtp", host="mail.example", port=587, user="ann", password="p@ss", sender="fleet@example.com"
    )
    assert "p@ss" not in repr(found)
    wrong: Sequence[tuple[str, str, str]] = (
        ("http://mail.example", "fleet@example.com", "smtps://"),
        ("smtp://mail.example:x", "fleet@example.com", "smtps://"),
        ("smtp+plain://a:b@mail.example", "fleet@example.com", "password"),
        ("smtps://mail.example", "fleet\n@example.com", "PODFLEET_MAIL_FROM"),
    )
    for url, sender, why in wrong:
        with pytest.raises(ConfigError, match=why):
            read(url, sender)
