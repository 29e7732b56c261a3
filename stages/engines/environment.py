"""The environment of an engine: proxies, tokens and folders of its pod and its run, and nothing else; pure.

Law: nothing is inherited; an empty setting is a variable that is not set. No proxy is asked for this pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from events.models.variables import LOGIN, PROXIES, TOKENS
from events.text.mask import MASK, SECRET_NAME, Mask, passwords_of

# Of proxies some programs read one case, some the other.
DIRECT: Final = "NO_PROXY"
HERE: Final = ("localhost", "127.0.0.1", ".local")
OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
PASSED: Final = (
    LOGIN,
    *("HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "MODEL_PATH", "OLLAMA_MODELS"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "PATH", "LD_LIBRARY_PATH", "LANG", "TZ"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "DOCKER_HOST"),
)
# What a program has that loads no model: the way to the hub, and the folder of what is here already.
OF_TOOLS: Final = (
    *PROXIES,
    DIRECT,
    *TOKENS,
    *OFFLINE,
    LOGIN,
    *("HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("PATH", "LANG", "TZ"),
)
# What is of this pod's own programs, and would mislead those of an image.
NOT_IN_CONTAINERS: Final = frozenset(
    {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DOCKER_HOST", "CUDA_HOME", "HOME", "TMPDIR"}
)


def engine_environment(variables: Mapping[str, str], *, is_offline: bool = False) -> dict[str, str]:
    """Return the variables of an engine, out of those of its run: its secrets are among them."""
    found = {name: variables.get(name, "").strip() for name in PASSED}
    for upper in (*PROXIES, DIRECT):
        value = _either(variables, upper)
        if upper == DIRECT:
            given = [each.strip() for each in value.split(",") if each.strip()]
            value = ",".join(dict.fromkeys((*given, *HERE)))
        found |= {upper: value, upper.lower(): value}
    token = next((variables[name].strip() for name in TOKENS if variables.get(name, "").strip()), "")
    found |= dict.fromkeys(TOKENS, token)
    if is_offline:
        found |= dict.fromkeys(OFFLINE, "1")
    return {name: value for name, value in found.items() if value}


def tool_environment(variables: Mapping[str, str], *, is_offline: bool = False) -> dict[str, str]:
    """Return the variables of a program beside an engine, out of those of its run."""
    found = engine_environment(variables, is_offline=is_offline)
    return {name: value for name, value in found.items() if name.upper() in OF_TOOLS}


def mask_of(environment: Mapping[str, str]) -> Mask:
    """Return what hides the secrets of an environment in texts."""
    named = (value for name, value in environment.items() if SECRET_NAME.search(name))
    return Mask([*named, *(each for value in environment.values() for each in passwords_of(value))])


def described(environment: Mapping[str, str]) -> str:
    """Return in words which proxies an engine has, whether it has a token, and whether it is offline."""
    mask = mask_of(environment)
    proxies = [f"{name}={mask.text(environment[name])}" for name in PROXIES if environment.get(name)]
    token = f"{TOKENS[0]}={MASK}" if environment.get(TOKENS[0]) else f"no {TOKENS[0]}"
    offline = [f"{OFFLINE[0]}=1"] if is_offline(environment) else []
    return ", ".join([*(proxies or ["no proxy"]), token, *offline])


def is_offline(environment: Mapping[str, str]) -> bool:
    """Return whether an engine may load only what is on the pod, as the hub's libraries read it."""
    return environment.get(OFFLINE[0], "").upper() in ("1", "ON", "YES", "TRUE")


def _either(variables: Mapping[str, str], upper: str) -> str:
    return (variables.get(upper) or variables.get(upper.lower()) or "").strip()
