"""What is wrong with the variables by which an engine reaches its model: proxies, tokens, certificates; pure.

Law: a value is never told; it may be a secret, or hold one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

VALUE_CHARS_MAX: Final = 2_000
PROXY: Final = re.compile(
    r"((https?|socks5h?)://(\S+@)?|([^\s/]+@)?)([a-z0-9._-]+|\[[a-f0-9.:]{2,45}\])(:\d{1,5})?/?",
    re.IGNORECASE,
)
PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
TOKENS: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
LOGIN: Final = "HF_TOKEN_PATH"  # what is read without these, by default HF_HOME/token
TOKEN: Final = re.compile(r"[!-~]{8,500}")
FILES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
FOLDERS: Final = ("MODEL_PATH", "SSL_CERT_DIR")
PLACES: Final = ("HF_HOME", "HF_HUB_CACHE")  # made where they are not
OFFLINE: Final = "HF_HUB_OFFLINE"
FLAGS: Final = frozenset({"1", "0", "ON", "OFF", "YES", "NO", "TRUE", "FALSE"})
ADDRESS: Final = re.compile(r"https?://[^\s]{1,1000}")


def faults(variables: Mapping[str, str], exists: Callable[[str], bool]) -> Iterator[str]:
    """Yield in words what an engine could not use, each with its name and what to do."""
    found = {name: value.strip() for name, value in variables.items() if value.strip()}
    for name in (each for upper in PROXIES for each in (upper, upper.lower()) if each in found):
        if len(found[name]) > VALUE_CHARS_MAX or not PROXY.fullmatch(found[name]):
            yield f"{name} is no address of a proxy: write http://USER:PASSWORD@HOST:PORT, or http://HOST:PORT"
    for name in (each for each in TOKENS if each in found):
        if not TOKEN.fullmatch(found[name]):
            yield f"{name} is no token: it has 8 characters or more, and neither spaces nor line breaks"
    for name in (each for each in (*FILES, *FOLDERS) if each in found):
        if not exists(found[name]):
            yield f"{name} names what is not there: correct the path, or leave the variable out"
    for name in (each for each in PLACES if each in found):
        if not found[name].startswith("/"):
            yield f"{name} is no absolute path: runs have folders of their own"
    if OFFLINE in found and found[OFFLINE].upper() not in FLAGS:
        yield f"{OFFLINE} is neither 1 nor 0: the hub's libraries take it for 0"
    if "HF_ENDPOINT" in found and not ADDRESS.fullmatch(found["HF_ENDPOINT"]):
        yield "HF_ENDPOINT is no address: it begins with http:// or https://"
