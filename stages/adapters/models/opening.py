"""Opens a model at an endpoint: the one that the environment of a pod names, or another.

Law: without a key or an address there is no model and nothing is imported. A model that cannot be used
fails the run with the reason; the run does not continue without it.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final, Protocol
from urllib.parse import urlsplit

from events.models.providers import ANTHROPIC, NO_KEY, OPENAI, Provider, named_provider
from events.runtime.clock import Clock, Ids
from events.runtime.egress_policy import SETTING, EgressPolicy, read_egress_policy
from events.runtime.errors import PipelineError
from stages.adapters.models.line import Key
from stages.adapters.models.retrier import Retrier
from stages.models.model import Model
from stages.models.retrying import REQUEST_MAX_S, TOTAL_MAX_S


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model behind the API of a provider: its address, the key, and where its requests may go.

    `api_key` returns the key at each request: one of a user is another after a while. `address_in` and
    `key_in` say for people where address and key are set. `is_direct` asks no proxy.
    """

    provider: Provider
    model: str
    base_url: str
    api_key: Key = field(default=lambda: NO_KEY, repr=False)
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    is_direct: bool = False
    address_in: str = "base_url"
    key_in: str = "its key"


class OpenModel(Model, Protocol):
    """A model with connections, which its owner closes."""

    def close(self) -> None:
        """Close its connections."""
        ...


def open_model(
    environ: Mapping[str, str], *, clock: Clock, ids: Ids, stop: threading.Event | None = None
) -> OpenModel | None:
    """Return the model that `environ` names, None where it names none; nothing is asked yet.

    `stop` ends the questions that wait in any thread. Raises `PipelineError` with the code CONFIG.
    """
    provider = named_provider(environ)
    if provider is None:
        return None
    endpoint = Endpoint(
        provider=provider,
        model=provider.setting(environ, "MODEL") or provider.model,
        base_url=provider.address(environ),
        api_key=lambda: provider.key(environ),
        egress=egress_policy_of(environ),
        address_in=f"{provider.prefix}_BASE_URL",
        key_in=f"{provider.prefix}_API_KEY",
    )
    return open_endpoint(endpoint, clock=clock, ids=ids, stop=stop)


def open_endpoint(
    endpoint: Endpoint,
    *,
    clock: Clock,
    ids: Ids,
    stop: threading.Event | None = None,
    request_max_s: float = REQUEST_MAX_S,
    total_max_s: float = TOTAL_MAX_S,
) -> OpenModel:
    """Return the model at an endpoint; nothing is asked yet. `stop` as in `open_model`, limits of `Retrier`.

    Raises `PipelineError` with the code CONFIG.
    """
    if problems := list(_problems(endpoint)):
        raise PipelineError("CONFIG", "; ".join(problems))
    found = ADAPTERS[endpoint.provider.name]
    adapter = getattr(importlib.import_module(found.module), found.kind)  # heavy: only where it is used
    model: OpenModel = adapter(
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        retrier=Retrier(
            clock=clock,
            ids=ids,
            stop=stop or threading.Event(),
            request_max_s=request_max_s,
            total_max_s=total_max_s,
        ),
        egress=endpoint.egress,
        is_direct=endpoint.is_direct,
    )
    return model


def served_endpoint(name: str, url: str) -> Endpoint:
    """Return the endpoint of a model that this process serves: its requests go to this machine alone."""
    own = EgressPolicy(networks=(ip_network("127.0.0.1/32"),))
    return Endpoint(provider=OPENAI, model=name, base_url=url, egress=own, is_direct=True)


def egress_policy_of(environ: Mapping[str, str]) -> EgressPolicy:
    """Return where a pod's tools may connect to. Raises `PipelineError` with the code CONFIG."""
    try:
        return read_egress_policy(environ.get(SETTING, ""))
    except ValueError as error:
        raise PipelineError("CONFIG", str(error)) from error


def _problems(endpoint: Endpoint) -> Iterator[str]:
    sdk = ADAPTERS[endpoint.provider.name].sdk
    if importlib.util.find_spec(sdk) is None:
        yield (
            f"{endpoint.key_in} or {endpoint.address_in} is set, and the package {sdk!r} is missing: "
            "pip install 'podfleet[models]' on this pod, or unset it to use the built-in researcher"
        )
    if not _is_address(endpoint.base_url):
        yield f"{endpoint.address_in} has to be an address like {endpoint.provider.base_url}"
    elif objection := endpoint.egress.early_objection(urlsplit(endpoint.base_url).hostname or ""):
        yield f"{endpoint.address_in}: {objection}"
    key = endpoint.api_key()
    if not (key.isascii() and key.isprintable()):
        yield f"{endpoint.key_in} holds characters that no key has"


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is no number
        return False
