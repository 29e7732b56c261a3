"""Masks secrets in texts: known values, and what looks like one, such as the password in an address, pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

MASK: Final = "***"
SECRET_MIN_CHARS: Final = 4  # shorter values are no secrets, and masking them would hide half the log

SECRET_NAME: Final = re.compile(
    r"(^|[_.-])(password|passwd|secret|token|authorization|credentials?|cookie|(api|access|secret|private)[_-]?key)\s*\Z",
    re.IGNORECASE,
)
# Up to the last @: a password may hold one.
CREDENTIALS_IN_URL: Final = re.compile(r"(?<=://)[^/\s?#\"'<>]+@")
# Where a person shall still see who signs in.
SIGNED_IN: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<who>[^/\s]*)@")
STARS: Final = "********"
# What signs an address, or opens it.
SECRET_IN_QUERY: Final = re.compile(
    r"(?<=[?&])([\w.-]*(?:key|token|secret|password|signature|credential)[\w.-]*=)[^&\s\"'<>]+", re.IGNORECASE
)
KEY_OF_OURS: Final = re.compile(r"\bpf_[a-z]+_[0-9A-Za-z]{20,}(?:_[0-9A-Za-z]+)?")
PASSWORD_MIN_CHARS: Final = 8
WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Mask:
    """Replaces by `***` fields with a secret's name, known values, and what looks like a secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        whole = [part for secret in secrets for part in (secret, *passwords_of(secret))]
        known = {form for secret in whole for form in (secret, quote(secret, safe=""))}
        usable = sorted((s for s in known if len(s) >= SECRET_MIN_CHARS), key=len, reverse=True)
        self._forms = tuple(usable)
        self._known = re.compile("|".join(map(re.escape, usable))) if usable else None

    def __call__(self, logger: object, method: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a log's record without secrets, as a step of `structlog`."""
        return {name: self._field(name, value) for name, value in record.items()}

    def text(self, text: str) -> str:
        """Return `text` without secrets."""
        without_passwords = CREDENTIALS_IN_URL.sub(f"{MASK}@", self.known(text))
        return KEY_OF_OURS.sub(MASK, SECRET_IN_QUERY.sub(rf"\1{MASK}", without_passwords))

    def known(self, text: str) -> str:
        """Return `text` without the secrets that were named."""
        return text if self._known is None else self._known.sub(MASK, text)

    def stars(self, text: str) -> str:
        """Return `text` with a star for each character of the secrets that were named: as long as it was."""
        return text if self._known is None else self._known.sub(lambda found: "*" * len(found[0]), text)

    def begun(self, text: str) -> int:
        """Return how many characters at the end of `text` may be the beginning of a secret that was named."""
        most = 0
        for form in self._forms:
            at = text.find(form[0], max(0, len(text) - len(form) + 1))
            while at >= 0 and len(text) - at > most:
                if form.startswith(text[at:]):
                    most = len(text) - at
                at = text.find(form[0], at + 1)
        return most

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


def masked_address(text: str) -> str:
    """Return an address without the secrets in it; the name that signs in stays, to tell it from others."""
    return SECRET_IN_QUERY.sub(rf"\1{STARS}", SIGNED_IN.sub(_without_password, text))


def _without_password(found: re.Match[str]) -> str:
    user, colon, _ = found["who"].partition(":")
    # An address with one word before the @ carries a token.
    return f"{found['scheme']}{f'{user}:{STARS}' if colon else STARS}@"
