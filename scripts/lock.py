"""Writes constraints.txt: one version of everything, for every platform, and the hashes of all its files.

    python -m scripts.lock              the versions that are there, as far as pyproject.toml allows them
    python -m scripts.lock --upgrade    the newest versions
    python -m scripts.lock --pods       only what control planes tell pods of it: the packages of each extra

For maintainers only: asks the index that pip is set up with, by the uv of the lock.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from scripts.locked import BACK_END_OF_SOURCES, INSTALLER, LOCK, ROOT, Pin, as_pip_is_told, read_lock

PODS: Final = ROOT / "control_plane" / "server" / "install" / "pods.json"
# What a pod may need; each with all that it asks for.
EXTRAS_OF_PODS: Final = ("pod", "models", "experiment", "serving", "benchmark", "image")

TITLE: Final = (
    "# Every dependency at one version, by the hashes of all its files, for all platforms.\n"
    "# Written by `python -m scripts.lock`, installed by scripts/locked.py.\n"
)


def written(lock: str, builds: Iterable[str]) -> str:
    """Return uv's lock as ours, without markers: what is asked for says where."""
    pins = [f"{pin.name}=={pin.version}" for pin in read_lock(lock).values()]
    if len(pins) != len(re.findall(r"^[a-z0-9.-]+==", lock, re.MULTILINE)):
        sys.exit(
            "lock: no single version serves every platform; narrow tool.uv.environments in pyproject.toml"
        )
    if stale := {each for each in builds if each.partition("+")[0] not in pins}:
        sys.exit(
            f"lock: pyproject.toml names {', '.join(stale)}, a build of another version than the locked one"
        )
    blocks = [
        " \\\n    ".join((pin, *(f"--hash={each}" for each in mine.hashes)))
        for pin, mine in zip(pins, read_lock(lock).values(), strict=True)
    ]
    return TITLE + "\n".join(blocks) + "\n"


def for_pods(closures: Mapping[str, str], pins: Mapping[str, Pin], everywhere: str) -> str:
    """Return what a control plane reads: the packages of each extra with their markers, and their pins.

    `closures` are uv's answers by extra, a line for each package. `everywhere` is a package that every
    platform needs: its marker says nothing but which platforms the lock is for. Ends the program where a
    package has another version than the lock.
    """
    extras: dict[str, dict[str, str]] = {}
    for extra, text in closures.items():
        of_extra = extras[extra] = {}
        for name, version, marker in re.findall(r"^([a-z0-9.-]+)==(\S+)(?: ; (.+))?$", text, re.MULTILINE):
            if pins[name].version != version:
                sys.exit(f"lock: {extra} asks for {name} {version}, and {pins[name].version} is locked")
            of_extra[name] = marker
        general = of_extra[everywhere]
        of_extra |= {name: "" for name, marker in of_extra.items() if marker == general}
    named = sorted({name for of_extra in extras.values() for name in of_extra})
    locked = {name: {"version": pins[name].version, "hashes": [*pins[name].hashes]} for name in named}
    return json.dumps({"extras": extras, "pins": locked}, indent=1) + "\n"


def write_pods(settings: Mapping[str, str]) -> None:
    """Write the part of the lock that control planes tell pods, for the lock as it is."""
    pins = read_lock(LOCK.read_text())
    with tempfile.TemporaryDirectory() as folder:
        versions = Path(folder, "versions.txt")
        versions.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in pins.values()))
        closures = {
            extra: subprocess.run(
                [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--extra", extra,
                 "--no-annotate", "--no-header", "--constraint", str(versions), "pyproject.toml"],
                cwd=ROOT, env=os.environ | settings, check=True, text=True, stdout=subprocess.PIPE,
            ).stdout
            for extra in EXTRAS_OF_PODS
        }  # fmt: skip
    everywhere = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"][0]
    PODS.write_text(for_pods(closures, pins, everywhere))


def main(argv: Sequence[str]) -> None:
    """Write the lock."""
    parser = argparse.ArgumentParser(prog="python -m scripts.lock")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    parser.add_argument("--pods", action="store_true", help="leave constraints.txt as it is")
    arguments = parser.parse_args(argv)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own = pyproject["tool"]["podfleet"]
    pins = read_lock(LOCK.read_text()).values()
    # the index alone: builds of places beside it are not what everybody finds
    settings = {
        name: text for name, text in as_pip_is_told().items() if name not in ("UV_INDEX", "UV_FIND_LINKS")
    }
    if arguments.pods:
        write_pods(settings)
        return
    with tempfile.TemporaryDirectory() as folder:
        versions, output = Path(folder, "versions.txt"), Path(folder, "lock.txt")
        if not arguments.upgrade:  # an output that is there already tells what is preferred
            output.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in pins))
        versions.write_text(
            "\n".join(
                (*pyproject["build-system"]["requires"], BACK_END_OF_SOURCES, INSTALLER, *own["bounds"])
            )
        )
        subprocess.run(
            [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--all-extras",
             "--generate-hashes", "--no-annotate", "--no-header", "--output-file", str(output),
             "pyproject.toml", str(versions)],
            cwd=ROOT, env=os.environ | settings, check=True,
        )  # fmt: skip
        LOCK.write_text(written(output.read_text(), own["builds"]))
    write_pods(settings)


if __name__ == "__main__":
    main(sys.argv[1:])
