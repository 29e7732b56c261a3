"""The providers of language models, and the settings that name one, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NO_KEY: Final = "none"  # a server of one's own asks for none, the SDK does


@dataclass(frozen=True, slots=True)
class Provider:
    """An API that models are behind: the names of its settings, and the listing that costs nothing."""

    name: str
    prefix: str
    base_url: str
    model: str
    listing: str

    def setting(self, environ: Mapping[str, str], name: str) -> str:
        """Return `OPENAI_MODEL` and the like, empty where it is not set."""
        return environ.get(f"{self.prefix}_{name}", "").strip()

    def is_named(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment asks for this one; an address alone may be a server without keys."""
        return bool(self.setting(environ, "API_KEY") or self.setting(environ, "BASE_URL"))

    def address(self, environ: Mapping[str, str]) -> str:
        """Return the address of the API."""
        return self.setting(environ, "BASE_URL") or self.base_url

    def key(self, environ: Mapping[str, str]) -> str:
        """Return the key, `NO_KEY` where there is none."""
        return self.setting(environ, "API_KEY") or NO_KEY

    def headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request with the key."""
        key = self.key(environ)
        if self.name == "anthropic":
            return {"x-api-key": key, "anthropic-version": "2023-06-01"}
        return {"authorization": f"Bearer {key}"}


OPENAI: Final = Provider("openai", "OPENAI", "https://api.openai.com/v1", "gpt-6.1-sol", "/models")
ANTHROPIC: Final = Provider(
    "anthropic", "ANTHROPIC", "https://api.anthropic.com", "claude-sonnet-5-5", "/v1/models"
)
PROVIDERS: Final = (OPENAI, ANTHROPIC)


def named_provider(environ: Mapping[str, str]) -> Provider | None:
    """Return the provider that settings name: an OpenAI-compatible endpoint goes before Anthropic's."""
    return next((each for each in PROVIDERS if each.is_named(environ)), None)
