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
from events.runtime.model_providers import ANTHROPIC, OPENAI, Provider, named_provider
from stages.adapters.models.retrier import Retrier
from stages.isolation.egress_policy import SETTING, EgressPolicy, read_egress_policy
from stages.models.model import Model


@dataclass(frozen=True, slots=True)
class Adapter:
    """The adapter of a provider's API, and the SDK that it needs."""

    sdk: str
    module: str
    kind: str


ADAPTERS: Final[Mapping[str, Adapter]] = {
    OPENAI.name: Adapter("openai", "stages.adapters.models.openai", "OpenAiModel"),
    ANTHROPIC.name: Adapter("anthropic", "stages.adapters.models.anthropic", "AnthropicModel"),
}


def open_model(
    environ: Mapping[str, str], *, clock: Clock, ids: Ids, stop: threading.Event | None = None
) -> Model | None:
    """Return the model that `environ` names, None where it names none; nothing is asked yet.

    `stop` ends the questions that wait in any thread. Raises `PipelineError` with the code CONFIG.
    """
    provider = named_provider(environ)
    if provider is None:
        return None
    if problems := list(_problems(provider, environ)):
        raise PipelineError("CONFIG", "; ".join(problems))
    found = ADAPTERS[provider.name]
    adapter = getattr(importlib.import_module(found.module), found.kind)  # heavy: only where it is used
    model: Model = adapter(
        model=provider.setting(environ, "MODEL") or provider.model,
        base_url=provider.address(environ),
        api_key=provider.key(environ),
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
    prefix, sdk = provider.prefix, ADAPTERS[provider.name].sdk
    if importlib.util.find_spec(sdk) is None:
        yield (
            f"{prefix}_API_KEY or {prefix}_BASE_URL is set, and the package {sdk!r} is missing: "
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
