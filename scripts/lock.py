"""Writes constraints.txt: one version of everything, for every platform, and the hashes of all its files.

    python -m scripts.lock              the versions that are there, as far as pyproject.toml allows them
    python -m scripts.lock --upgrade    the newest versions

For maintainers only: asks the index that pip is set up with, by the uv of the lock.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from scripts.locked import BACK_END_OF_SOURCES, INSTALLER, LOCK, ROOT, as_pip_is_told, read_lock

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


def main(argv: Sequence[str]) -> None:
    """Write the lock."""
    parser = argparse.ArgumentParser(prog="python -m scripts.lock")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    arguments = parser.parse_args(argv)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own = pyproject["tool"]["podfleet"]
    pins = read_lock(LOCK.read_text()).values()
    # the index alone: builds of places beside it are not what everybody finds
    settings = {
        name: text for name, text in as_pip_is_told().items() if name not in ("UV_INDEX", "UV_FIND_LINKS")
    }
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


if __name__ == "__main__":
    main(sys.argv[1:])
