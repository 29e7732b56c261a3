"""The way of a run's own to the hub, if its pod lets it: a token, a proxy, and whom to trust behind that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.models.engines import PROXY, require_consent
from events.models.variables import FILES, LOGIN, PROXIES, TOKENS, faults
from events.runtime.errors import PipelineError

CERTIFICATES: Final = "certificates.pem"
BEGIN: Final = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The names of a run's secrets that its engine has in the place of what its pod has; empty for none."""

    token: str = ""
    proxy: str = ""
    certificates: str = ""


def with_own(own: Own, variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables of a run, with its own token, proxy and certificates; these become a file.

    With a proxy or certificates of a run nobody gets the pod's token, from `HF_HOME` neither: whoever chose
    them could read it. Raises `PipelineError` CONFIG without the consent of the pod, and for no such value.
    """
    found = dict(variables)
    if own.proxy or own.certificates:
        require_consent([PROXY], variables)
        found = {name: value for name, value in found.items() if name not in TOKENS}
        found[LOGIN] = os.devnull
    if own.token:
        found |= _checked(dict.fromkeys(TOKENS, _secret(own.token, variables)))
    if own.proxy:
        found = {name: value for name, value in found.items() if name.upper() not in PROXIES}
        found |= _checked(dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), _secret(own.proxy, variables)))
    if own.certificates:
        text = _secret(own.certificates, variables)
        if BEGIN not in text:
            said = f"the secret {own.certificates} has no certificate: a line {BEGIN}"
            raise PipelineError("CONFIG", said)
        file = folder / CERTIFICATES
        file.write_text(text)
        found |= dict.fromkeys(FILES, str(file))
    return found


def _checked(given: dict[str, str]) -> dict[str, str]:
    if wrong := [*faults(given, lambda _: True)]:
        raise PipelineError("CONFIG", f"of the secrets of the run: {'; '.join(wrong)}")
    return given


def _secret(name: str, variables: Mapping[str, str]) -> str:
    value = variables.get(name, "").strip()
    if not value:
        raise PipelineError(
            "CONFIG", f"the run has no secret {name}: set it, and submit the run with --secret {name}"
        )
    return value + "\n" if "\n" in value else value
