"""The names and values of secrets: what may be the name of one, and what its value may be, pure.

A secret reaches a run as a variable of its environment, so its name is that of the variable. It may not take
the place of a variable that decides what a process loads, whom it asks, or what a pod is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

NAME_PATTERN: Final = "[A-Za-z_][A-Za-z0-9_]{0,99}"
VALUE_BYTES_MAX: Final = 64 * 1024
SECRETS_MAX: Final = 1_000  # of a fleet
OF_RUN_MAX: Final = 32
# What a run names in place of a secret to get the access token of whoever submitted it. No secret can have
# this name: it is reserved like all of the worker's.
USER_TOKEN: Final = "PODFLEET_USER_TOKEN"  # noqa: S105 - a name
# With what uv lets itself in at an index of this name. It decides nothing of what is loaded.
_OF_INDEX: Final = re.compile(r"UV_INDEX_[A-Z0-9_]+_(USERNAME|PASSWORD)", re.ASCII)
MASKED_CHARS_MIN: Final = 8  # shorter values are words, and masking them would hide half the log

# What a secret may not set, by what it steers. In capitals, since some programs read these in small letters
# too; a `*` stands for any letters.
RESERVED: Final[Mapping[str, tuple[str, ...]]] = {
    "which programs and libraries a process loads": (
        *("PATH", "LD_*", "DYLD_*", "PYTHON*", "VIRTUAL_ENV", "PIP_*", "UV_*", "CONDA_*", "GCONV_PATH"),
        *(
            "PERL5LIB",
            "PERL5OPT",
            "RUBYLIB",
            "RUBYOPT",
            "NODE_OPTIONS",
            "NODE_PATH",
            "JAVA_TOOL_OPTIONS",
            "CLASSPATH",
        ),
        *("GLIBC_TUNABLES", "MALLOC_*", "BASH_*", "ENV", "IFS", "SHELL", "PROMPT_COMMAND", "PS4", "CDPATH"),
        *("BASHOPTS", "SHELLOPTS", "PAGER", "MANPAGER", "EDITOR", "VISUAL", "BROWSER", "LESSOPEN"),
        *("GIT_*", "OPENSSL_*", "SSH_ASKPASS", "SUDO_ASKPASS"),
    ),
    "where a process reads and writes": (
        *("HOME", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "XDG_*", "HF_HOME", "MPLCONFIGDIR", "_"),
    ),
    "whom a process asks, and whom it trusts": (
        *("*_PROXY", "SSL_*", "SSLKEYLOGFILE", "*_CA_BUNDLE", "RES_OPTIONS", "HOSTALIASES", "LOCALDOMAIN"),
        # an address decides who is sent the keys of the pod, and is no secret
        *("*_BASE_URL", "*_API_BASE", "*_ENDPOINT", "*_ENDPOINT_URL", "ANTHROPIC_MODEL", "OPENAI_MODEL"),
        *("OLLAMA_HOST", "NETRC"),
    ),
    "how the worker reaches its storage, its database and its control plane": (
        *("AWS_*", "MINIO_*", "MONGO*", "CONTROL_PLANE_*", "PODFLEET_*"),
    ),
    "what a pod is": (
        *("USER", "LOGNAME", "HOSTNAME", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*", "LOCPATH", "NLSPATH"),
        *("CUDA_*", "NVIDIA_*", "NCCL_*", "OMP_*", "MKL_*", "TORCH_*", "RUNPOD_*"),
        *("PYTORCH_*", "TRITON_*", "NUMBA_*", "TF_*", "XLA_*", "SKLEARN_*"),
    ),
    "what is compiled, and from which folder or by which option something is loaded": (
        *("CC", "CXX", "CPATH", "MPLBACKEND", "TEXMFCNF", "TEXINPUTS"),
        *("*_PATH", "*_DIR", "*_OPTIONS", "*_OPTS", "*_FLAGS"),
    ),
}
_RESERVED: Final = tuple(
    (re.compile("|".join(each.replace("*", ".*") for each in names), re.ASCII), steers)
    for steers, names in RESERVED.items()
)


def fault_of_named(name: str) -> str | None:
    """Return why a run may not name this; it may name a secret, or the access token of its user."""
    return None if name == USER_TOKEN else fault_of_name(name)


def fault_of_name(name: str) -> str | None:
    """Return why a text is no name of a secret; None for one that is."""
    if re.fullmatch(NAME_PATTERN, name) is None:
        return "a name has letters, digits and _, begins with no digit, and has 100 characters at most"
    if is_of_index(name):
        return None
    for pattern, steers in _RESERVED:
        if pattern.fullmatch(name.upper()):
            return f"{name} is a variable that a secret may not set: it decides {steers}"
    return None


def is_of_index(name: str) -> bool:
    """Say whether a secret is for uv, which lets itself in at an index of packages with it."""
    return _OF_INDEX.fullmatch(name) is not None


def fault_of_value(value: str) -> str | None:
    """Return why a text cannot be a secret's value, without quoting it; None for one that can be."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "a value is text in UTF-8"
    if not 0 < size <= VALUE_BYTES_MAX:
        return f"a value has 1 to {VALUE_BYTES_MAX} bytes, not {size}"
    return "a value has no character NUL" if "\0" in value else None
