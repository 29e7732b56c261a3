"""The names and values of secrets: what may be the name of one, and what its value may be, pure.

A secret reaches a run as a variable of its environment, so its name is that of the variable. It may not take
the place of a variable that decides what a process loads, whom it asks, or what a pod is.
"""

from __future__ import annotations

import re
from typing import Final

NAME_PATTERN: Final = "^[A-Za-z_][A-Za-z0-9_]{0,99}$"
NAME: Final = re.compile(NAME_PATTERN.strip("^$"), re.ASCII)
VALUE_BYTES_MAX: Final = 64 * 1024
SECRETS_MAX: Final = 1_000  # of a fleet
OF_RUN_MAX: Final = 32
MASKED_CHARS_MIN: Final = 8  # shorter values are words, and masking them would hide half the log

# In capitals, since some programs read these in small letters too.
RESERVED: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "IFS", "ENV"),
        *("LANG", "LANGUAGE", "TZ", "TERM", "HOSTNAME", "VIRTUAL_ENV", "SSLKEYLOGFILE", "GLIBC_TUNABLES"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("HF_HOME", "GCONV_PATH", "LOCPATH", "NLSPATH", "CONTROL_PLANE_URL", "RES_OPTIONS", "HOSTALIASES"),
        *(
            "_",
            "ANTHROPIC_MODEL",
            "OPENAI_MODEL",
            "MPLCONFIGDIR",
            "PERL5LIB",
            "PERL5OPT",
            "RUBYLIB",
            "RUBYOPT",
        ),
        *("PAGER", "EDITOR", "PROMPT_COMMAND", "PS4", "CDPATH", "SHELLOPTS", "BASHOPTS", "NETRC"),
        *("CC", "CXX", "CPATH", "OLLAMA_HOST", "MPLBACKEND", "TEXMFCNF", "TEXINPUTS"),
    }
)
RESERVED_PREFIXES: Final = (
    *("LD_", "DYLD_", "PYTHON", "PODFLEET_", "MONGODB_", "MINIO_", "LC_", "BASH_", "XDG_", "SSL_CERT_"),
    *("CUDA_", "NVIDIA_", "NCCL_", "OMP_", "MKL_", "TORCH_", "MALLOC_", "RUNPOD_", "GIT_", "PIP_", "UV_"),
    *("OPENSSL_", "PYTORCH_", "TRITON_", "NUMBA_", "TF_", "XLA_", "SKLEARN_"),
)
# An address decides who is sent the keys of the pod, a folder or an option what is loaded; none is a secret.
RESERVED_SUFFIXES: Final = (
    *("_BASE_URL", "_API_BASE", "_ENDPOINT", "_ENDPOINT_URL", "_PROXY"),
    *("_PATH", "_DIR", "_OPTIONS", "_OPTS", "_FLAGS"),
)


def fault_of_name(name: str) -> str | None:
    """Return why a text is no name of a secret; None for one that is."""
    if NAME.fullmatch(name) is None:
        return "a name has letters, digits and _, begins with no digit, and has 100 characters at most"
    upper = name.upper()
    is_taken = upper in RESERVED or upper.startswith(RESERVED_PREFIXES) or upper.endswith(RESERVED_SUFFIXES)
    return f"{name} is a variable that a secret may not set" if is_taken else None


def fault_of_value(value: str) -> str | None:
    """Return why a text cannot be a secret's value, without quoting it; None for one that can be."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "a value is text in UTF-8"
    if not 0 < size <= VALUE_BYTES_MAX:
        return f"a value has 1 to {VALUE_BYTES_MAX} bytes, not {size}"
    return "a value has no character NUL" if "\0" in value else None
