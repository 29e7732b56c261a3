"""Where the packages of environments come from, as the operator's settings of uv and pip say it.

Law: what a run gets of them has no credentials: an address is passed without its name and password.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
# What uv reads by itself; the settings of pip count where uv has none.
OF_UV: Final = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX_STRATEGY",
    "UV_INSECURE_HOST",
    "UV_HTTP_TIMEOUT",
)
OF_PIP: Final[Mapping[str, str]] = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
YES: Final = ("1", "true", "yes", "on")
FILE_CHARS_MAX: Final = 100_000
_CREDENTIALS: Final = re.compile(r"(?<=://)[^\s/]*@")
_OF_PROXY: Final = re.compile(r"\A\s*[^\s/]*@")  # its address may lack a scheme


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Variables for uv, and options of its commands."""

    variables: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str], files: tuple[Path, ...]) -> Self:
        """Return what the environment of a pod and files of pip say, the later ones over the earlier."""
        pip: dict[str, str] = {}
        for file in files:
            pip |= dict(_options_in(file))
        named = {
            name: environ.get(f"PIP_{name.upper().replace('-', '_')}", "") for name in (*OF_PIP, "no-index")
        }
        pip |= {name: value for name, value in named.items() if value}
        found = {OF_PIP[name]: _as_uv(name, value) for name, value in pip.items() if name in OF_PIP}
        if found.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS"}:
            found["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip chooses
        found |= {name: environ[name] for name in (*OF_UV, *CERTIFICATES) if environ.get(name)}
        for name in PROXIES:
            if value := environ.get(name) or environ.get(name.lower()):
                value = _OF_PROXY.sub("", value)
                found |= {name: value, name.lower(): value}
        is_closed = any(
            each.lower() in YES for each in (environ.get("UV_NO_INDEX", ""), pip.get("no-index", ""))
        )
        variables = {name: _CREDENTIALS.sub("", value) for name, value in found.items() if value}
        return cls(variables, ("--no-index",) if is_closed else ())

    @property
    def folders(self) -> list[str]:
        """The folders of this machine that packages come from: runs have to see them."""
        named = (self.variables.get(name, "") for name in OF_UV)
        words = (each.removeprefix("file://") for value in named for each in re.split(r"[\s,]+", value))
        return [each for each in words if each.startswith("/") and Path(each).is_dir()]


def index_settings(environ: Mapping[str, str]) -> IndexSettings:
    """Return what the environment of a pod, and the files of pip on it, say."""
    return IndexSettings.of(environ, pip_files(environ))


def pip_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where pip looks for its settings on this machine, the strongest last."""
    homes = [Path(each) / "pip" for each in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep)]
    home = Path(environ.get("HOME") or "/nonexistent")
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    folders = (*homes, Path("/etc"), home / ".pip", own / "pip")
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return ()
    return (*(each / "pip.conf" for each in folders), *([Path(named)] if named else []))


def _options_in(file: Path) -> Iterator[tuple[str, str]]:
    read = configparser.RawConfigParser()
    with suppress(OSError, UnicodeDecodeError, configparser.Error), file.open() as opened:
        read.read_string(opened.read(FILE_CHARS_MAX))
    for section in ("global", "install"):
        if read.has_section(section):
            yield from ((name.replace("_", "-"), value) for name, value in read.items(section))


def _as_uv(name: str, value: str) -> str:
    words = value.split()
    if name != "find-links":
        return " ".join(words)
    # a folder that is not there is nothing to pip, and an error to uv
    return ",".join(each for each in words if "://" in each or Path(each).exists())
