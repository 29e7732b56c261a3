"""Sets a program's log up: one record a line, for a console or for a machine.

Law: no secret leaves through the log, neither under its name nor inside another text.
Called by `__main__` only.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TextIO
from urllib.parse import quote, unquote

import structlog

from events.harmless import for_terminal

MASK: Final = "***"
SECRET_MIN_CHARS: Final = 4  # shorter values are no secrets, and masking them would hide half the log

SECRET_NAME: Final = re.compile(
    r"(^|[_.-])(password|passwd|secret|token|authorization|credentials?|cookie|(api|access|secret|private)[_-]?key)$",
    re.IGNORECASE,
)
# Up to the last @: a password may hold one.
CREDENTIALS_IN_URL: Final = re.compile(r"(?<=://)[^/\s?#\"'<>]+@")
# What signs an address, or opens it.
SECRET_IN_QUERY: Final = re.compile(
    r"(?<=[?&])([\w.-]*(?:key|token|secret|password|signature|credential)[\w.-]*=)[^&\s\"'<>]+", re.IGNORECASE
)
KEY_OF_OURS: Final = re.compile(r"\bpf_[a-z]+_[0-9A-Za-z]{20,}(?:_[0-9A-Za-z]+)?")
PASSWORD_MIN_CHARS: Final = 8
WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How the log looks; `secrets` are values that must never appear."""

    style: Literal["console", "json"] = "console"
    level: str = "INFO"
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"LogOptions(style={self.style!r}, level={self.level!r}, secrets={MASK})"


def configure_logs(options: LogOptions, stream: TextIO) -> None:
    """Send every record of this process to `stream`, in one style and without secrets."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(default=str)
        if options.style == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,  # before the mask: tracebacks quote secrets too
                Mask(options.secrets),
                *((_told_harmlessly,) if options.style == "console" else ()),
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(options.level.upper())
    # It logs each URL, and a signed URL is a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _told_harmlessly(
    logger: object, method: str, record: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Let nothing that is told steer the terminal; what is no text is written as its `repr`."""
    return {name: for_terminal(value) if isinstance(value, str) else value for name, value in record.items()}


class Mask:
    """Replaces secrets by `***`: fields with a secret's name, known values, credentials in URLs."""

    def __init__(self, secrets: Iterable[str]) -> None:
        whole = [part for secret in secrets for part in (secret, *passwords_of(secret))]
        known = {form for secret in whole for form in (secret, quote(secret, safe=""))}
        usable = sorted((s for s in known if len(s) >= SECRET_MIN_CHARS), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, usable))) if usable else None

    def __call__(self, logger: object, method: str, record: structlog.typing.EventDict) -> Mapping[str, Any]:
        return {name: self._field(name, value) for name, value in record.items()}

    def text(self, text: str) -> str:
        """Return `text` without secrets."""
        open_ = SECRET_IN_QUERY.sub(rf"\1{MASK}", CREDENTIALS_IN_URL.sub(f"{MASK}@", self.known(text)))
        return KEY_OF_OURS.sub(MASK, open_)

    def known(self, text: str) -> str:
        """Return `text` without the secrets that were named."""
        return text if self._known is None else self._known.sub(MASK, text)

    def _field(self, name: str, value: Any) -> Any:
        if value is not None and SECRET_NAME.search(WORD_START.sub("_", name)):
            return MASK
        return self._value(value)

    def _value(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return self.text(value)
            case Mapping():
                return {str(name): self._field(str(name), inner) for name, inner in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self._value(inner) for inner in value]
            case _:
                return self.text(str(value))  # an exception or a path may quote a secret in its text


def passwords_of(url: str) -> tuple[str, ...]:
    """Return the password in an address, as written and as meant; a name that stands alone is one.

    A word that the rest of the address has too, as in `fleet:fleet@host/fleet`, is no secret: to mask it
    everywhere would hide half the log.
    """
    found = CREDENTIALS_IN_URL.search(url)
    if found is None:
        return ()
    user, colon, password = found.group()[:-1].partition(":")
    secret = password if colon else user
    is_word = len(secret) < PASSWORD_MIN_CHARS or url.count(secret) > 1
    return () if is_word else (secret, unquote(secret))
