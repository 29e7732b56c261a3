"""The engine that a run names, and the way of its own to the hub, if its pod lets it: both need consent."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.models.engine import Engine
from events.models.engines import SETTING, brought, engine_named
from events.models.rows.command import COMMAND
from events.models.variables import FILES, PROXIES, TOKENS, faults
from events.runtime.errors import PipelineError

CERTIFICATES: Final = "certificates.pem"
BEGIN: Final = "-----BEGIN CERTIFICATE-----"


def chosen(name: str, variables: Mapping[str, str], *, command: str = "", image: str = "") -> Engine:
    """Return the engine `name`, whose template is `command` where it has none, in `image` or as a process.

    `variables` are those of the run. Raises `PipelineError`: CONFIG for what there is not, NOT_AVAILABLE for
    what this pod does not let runs bring.
    """
    engine = engine_named(name, command)
    wanted = [word for word, asked in (("command", name == COMMAND.name), ("image", bool(image))) if asked]
    missing = [word for word in wanted if word not in brought(variables)]
    if missing:
        raise PipelineError(
            "NOT_AVAILABLE",
            f"this pod lets no run bring the {' and the '.join(missing)} of an engine: "
            f"{SETTING}={','.join(missing)} would allow that",
            retryable=True,
        )
    return engine


def is_here(engine: Engine, variables: Mapping[str, str]) -> bool:
    """Return whether this machine has what an engine needs to run as a process."""
    if engine.needs_is == "module":
        return importlib.util.find_spec(engine.needs) is not None
    return not engine.needs or shutil.which(engine.needs, path=variables.get("PATH")) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The names of a run's secrets that its engine has in the place of what its pod has; empty for none."""

    token: str = ""
    proxy: str = ""
    certificates: str = ""


def with_own(own: Own, variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables of a run, with its own token, proxy and certificates; these become a file.

    With a proxy or certificates of a run nobody gets the pod's token: whoever chose them could read it.
    Raises `PipelineError`: NOT_AVAILABLE without the consent of the pod, CONFIG for what is no such value.
    """
    found = dict(variables)
    if own.proxy or own.certificates:
        if "proxy" not in brought(variables):
            raise PipelineError(
                "NOT_AVAILABLE",
                "this pod lets no run bring the proxy or the certificates of an engine: "
                f"{SETTING}=proxy would allow that",
                retryable=True,
            )
        found = {name: value for name, value in found.items() if name not in TOKENS}
    if own.token:
        found |= dict.fromkeys(TOKENS, _secret(own.token, variables))
    if own.proxy:
        found = {name: value for name, value in found.items() if name.upper() not in PROXIES}
        found |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), _secret(own.proxy, variables))
    if own.certificates:
        file = folder / CERTIFICATES
        file.write_text(_secret(own.certificates, variables))
        found |= dict.fromkeys(FILES, str(file))
    told: dict[str, str] = {name: found[name] for name in (*PROXIES, *TOKENS) if name in found}
    if (own.token or own.proxy) and (wrong := [*faults(told, lambda _: True)]):
        raise PipelineError("CONFIG", f"of the secrets of the run: {'; '.join(wrong)}")
    if own.certificates and BEGIN not in _secret(own.certificates, variables):
        raise PipelineError("CONFIG", f"the secret {own.certificates} has no certificate: a line {BEGIN}")
    return found


def _secret(name: str, variables: Mapping[str, str]) -> str:
    value = variables.get(name, "").strip()
    if not value:
        raise PipelineError(
            "CONFIG", f"the run has no secret {name}: set it, and submit the run with --secret {name}"
        )
    return value + "\n" if "\n" in value else value
