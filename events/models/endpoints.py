"""Servers of models that no run starts: a pod's operator names them, and runs say the name; pure.

Law: no run says an address. What a pod offers is a name of its settings, and a label of the pod.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

SETTING: Final = "PODFLEET_ENDPOINTS"
ENDPOINTS_MAX: Final = 8
NAME: Final = r"[a-z][a-z0-9_-]{0,22}"
SHOWN_CHARS: Final = 100
OLLAMA_PATH: Final = "/api"
EXAMPLE: Final = "ollama=http://127.0.0.1:11434/api,vllm=http://127.0.0.1:8000/v1"

Form = Literal["openai", "ollama"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server of models that a pod's runs may ask, by its name."""

    name: str
    url: str

    @property
    def form(self) -> Form:
        """How it is spoken to: Ollama's own API has the path /api, that of OpenAI any other, such as /v1."""
        return "ollama" if urlsplit(self.url).path.rstrip("/") == OLLAMA_PATH else "openai"


def endpoints(variables: Mapping[str, str]) -> dict[str, Endpoint]:
    """Return the endpoints that a pod's settings name rightly."""
    return read_endpoints(variables.get(SETTING, ""))[0]


def read_endpoints(setting: str) -> tuple[dict[str, Endpoint], list[str]]:
    """Return the endpoints of a setting by their names, and in words what is wrong with it."""
    found, problems = dict[str, Endpoint](), list[str]()
    for pair in filter(None, map(str.strip, setting.split(","))):
        name, _, url = (each.strip() for each in pair.partition("="))
        if not re.fullmatch(NAME, name):
            problems.append(
                f"{SETTING}: {name[:SHOWN_CHARS]!r} is no name of an endpoint; it has a lower-case letter, "
                f"then at most 22 of a-z, 0-9, _ and -, and its address follows, as in {EXAMPLE}"
            )
        elif not _is_address(url):
            problems.append(
                f"{SETTING}: {name} needs an address such as http://127.0.0.1:8000/v1, without secrets"
            )
        elif name in found:
            problems.append(f"{SETTING}: {name} is given twice")
        else:
            found[name] = Endpoint(name, url)
    if len(found) > ENDPOINTS_MAX:
        problems.append(f"{SETTING}: {len(found)} endpoints; a pod has at most {ENDPOINTS_MAX}")
    return found, problems


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url and not (parts.query or parts.fragment)
    return (
        is_plain
        and parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and parts.username is None
    )
