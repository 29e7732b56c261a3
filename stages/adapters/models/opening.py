"""Opens the model that the environment of a pod names.

Law: without a key or an address there is no model and nothing is imported. A model that cannot be used
fails the run with the reason; the run does not continue without it.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from events.runtime.clock import Clock, Ids
from events.runtime.errors import PipelineError
from stages.adapters.models.retrier import Retrier
from stages.isolation.egress_policy import SETTING, EgressPolicy, read_egress_policy
from stages.models.model import Model

NO_KEY: Final = "none"  # a server of one's own asks for none, the SDK does


@dataclass(frozen=True, slots=True)
class Provider:
    """An API that models are behind: its SDK, its adapter, and the names of its settings."""

    sdk: str
    module: str
    kind: str
    prefix: str
    base_url: str
    model: str

    def setting(self, environ: Mapping[str, str], name: str) -> str:
        """Return `OPENAI_MODEL` and the like, empty where it is not set."""
        return environ.get(f"{self.prefix}_{name}", "").strip()

    def is_named(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment asks for this one; an address alone may be a server without keys."""
        return bool(self.setting(environ, "API_KEY") or self.setting(environ, "BASE_URL"))


PROVIDERS: Final = (
    Provider(
        sdk="openai",
        module="stages.adapters.models.openai",
        kind="OpenAiModel",
        prefix="OPENAI",
        base_url="https://api.openai.com/v1",
        model="gpt-6.1-sol",
    ),
    Provider(
        sdk="anthropic",
        module="stages.adapters.models.anthropic",
        kind="AnthropicModel",
        prefix="ANTHROPIC",
        base_url="https://api.anthropic.com",
        model="claude-sonnet-5-5",
    ),
)


def open_model(
    environ: Mapping[str, str], *, clock: Clock, ids: Ids, stop: threading.Event | None = None
) -> Model | None:
    """Return the model that `environ` names, None where it names none; nothing is asked yet.

    An OpenAI-compatible endpoint goes before Anthropic's. `stop` ends the questions that wait in
    any thread. Raises `PipelineError` with the code CONFIG.
    """
    provider = next((each for each in PROVIDERS if each.is_named(environ)), None)
    if provider is None:
        return None
    if problems := list(_problems(provider, environ)):
        raise PipelineError("CONFIG", "; ".join(problems))
    adapter = getattr(importlib.import_module(provider.module), provider.kind)  # heavy: only where it is used
    model: Model = adapter(
        model=provider.setting(environ, "MODEL") or provider.model,
        base_url=provider.setting(environ, "BASE_URL") or provider.base_url,
        api_key=provider.setting(environ, "API_KEY") or NO_KEY,
        retrier=Retrier(clock=clock, ids=ids, stop=stop or threading.Event()),
        egress=egress_policy_of(environ),
    )
    return model


def egress_policy_of(environ: Mapping[str, str]) -> EgressPolicy:
    """Return where a pod's tools may connect to. Raises `PipelineError` with the code CONFIG."""
    try:
        return read_egress_policy(environ.get(SETTING, ""))
    except ValueError as error:
        raise PipelineError("CONFIG", str(error)) from error


def _problems(provider: Provider, environ: Mapping[str, str]) -> Iterator[str]:
    prefix = provider.prefix
    if importlib.util.find_spec(provider.sdk) is None:
        yield (
            f"{prefix}_API_KEY or {prefix}_BASE_URL is set, and the package {provider.sdk!r} is missing: "
            "pip install 'podfleet[models]' on this pod, or unset it to use the built-in researcher"
        )
    address = provider.setting(environ, "BASE_URL")
    if address and not _is_address(address):
        yield f"{prefix}_BASE_URL has to be an address like {provider.base_url}"
    elif objection := egress_policy_of(environ).early_objection(urlsplit(address).hostname or ""):
        yield f"{prefix}_BASE_URL: {objection}"
    key = provider.setting(environ, "API_KEY")
    if not (key.isascii() and key.isprintable()):
        yield f"{prefix}_API_KEY holds characters that no key has"


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is no number
        return False
