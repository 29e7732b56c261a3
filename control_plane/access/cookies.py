"""Finds our cookies in a request in linear time, pure."""

import re
from typing import Final

COOKIE: Final = "__Host-podfleet"  # browsers take it only with Secure, for this host and all of its paths
COOKIE_BYTES_MAX: Final = 64 * 1024  # of all cookies together: other ports of a host have theirs too
LOGIN_COOKIE: Final = "__Host-podfleet-sign-in"  # while somebody is at the issuer
LOGIN: Final = re.compile(r"[A-Za-z0-9._-]{1,4000}", re.ASCII)
SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


def secret_in(cookies: str) -> str | None:
    """Return the secret of a session that a Cookie header holds: the first of our name and alphabet."""
    return _value_in(cookies, COOKIE, SECRET)


def login_in(cookies: str) -> str | None:
    """Return the sign-in that a Cookie header says was begun in this browser."""
    return _value_in(cookies, LOGIN_COOKIE, LOGIN)


def _value_in(cookies: str, wanted: str, alphabet: re.Pattern[str]) -> str | None:
    if len(cookies) > COOKIE_BYTES_MAX:
        return None
    for pair in cookies.split(";"):
        name, _, value = pair.partition("=")
        if name.strip(" \t") == wanted and alphabet.fullmatch(value.strip(" \t")):
            return value.strip(" \t")
    return None
