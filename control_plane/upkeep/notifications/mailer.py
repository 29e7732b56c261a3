"""Sends mail by SMTP: encrypted unless the operator said otherwise, bounded in time, a few at once."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Final

from control_plane.config import MAIL_FROM, SMTP_URL, Mail
from control_plane.upkeep.notifications.retrying import Answer

STEP_MAX_S: Final = 10.0  # until a server answers one step
TIME_MAX_S: Final = 30.0  # for all of them: then the connection is closed under the thread
AT_ONCE_MAX: Final = 4
TAKEN: Final = 250
SUBJECT_CHARS_MAX: Final = 200
PROBLEM_CHARS_MAX: Final = 300


@dataclass(slots=True)
class Mailer:
    """Hands mail to the server of the settings."""

    settings: Mail | None
    time_max_s: float = TIME_MAX_S
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="mail")
    )

    async def send(self, to: str, message_id: str, subject: str, text: str) -> Answer:
        """Send a mail; return how that ended, a server's code of success as 250."""
        if self.settings is None:
            return Answer(0, f"no mail is sent: {SMTP_URL} and {MAIL_FROM} are not set")
        mail = message(self.settings.sender, to, message_id, subject, text)
        session = _Session(self.settings)
        sending = asyncio.get_running_loop().run_in_executor(self._threads, session.send, mail)
        try:
            async with asyncio.timeout(self.time_max_s):
                await asyncio.shield(sending)
        except TimeoutError:
            session.cut()
            return Answer(0, f"the mail server did not take it within {self.time_max_s:.0f} s")
        except smtplib.SMTPRecipientsRefused:
            return Answer(0, "the mail server refuses the address")
        except smtplib.SMTPResponseException as error:
            said: object = error.smtp_error  # a server's words, or those of the library
            words = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
            return Answer(
                error.smtp_code, f"the mail server answers {error.smtp_code} {words}"[:PROBLEM_CHARS_MAX]
            )
        except (smtplib.SMTPException, OSError, ValueError) as error:
            return Answer(0, f"{type(error).__name__}: {error}"[:PROBLEM_CHARS_MAX])
        return Answer(TAKEN)


def message(sender: str, to: str, message_id: str, subject: str, text: str) -> EmailMessage:
    """Return a mail whose headers hold nothing but what they are for.

    Its id is the same at every try, by which mail programs know that it is the same.
    """
    mail = EmailMessage(policy=SMTP)
    mail["From"] = Address("podfleet", addr_spec=sender)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = " ".join(subject.split())[:SUBJECT_CHARS_MAX]
    mail["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no answers of absent people
    mail.set_content(text)
    return mail


@dataclass(slots=True)
class _Session:
    """One connection to a server, in a thread, which another one may cut."""

    settings: Mail
    _open: smtplib.SMTP | None = None

    def send(self, mail: EmailMessage) -> None:
        """Hand over a mail. Raises `smtplib.SMTPException`, `OSError`."""
        at, context = self.settings, ssl.create_default_context()
        self._open = (
            smtplib.SMTP_SSL(at.host, at.port, timeout=STEP_MAX_S, context=context)
            if at.scheme == "smtps"
            else smtplib.SMTP(at.host, at.port, timeout=STEP_MAX_S)
        )
        with self._open as server:
            if at.scheme == "smtp":
                server.starttls(context=context)
            if at.user:
                server.login(at.user, at.password)
            server.send_message(mail)

    def cut(self) -> None:
        """Close the connection, so that the thread ends."""
        if self._open is not None and self._open.sock is not None:
            with suppress(OSError):
                self._open.sock.shutdown(2)
