"""Executes a Containerfile in a root file system, without a container runtime.

    python -m scripts.try_containerfile deploy/Containerfile.pod /srv/root --set EXTRAS=pod

The folder is a base such as debootstrap makes; what the steps write stays in it. Steps are executed by
chroot, RUN as the user that the file names so far. It needs root, and is for trying: nothing else is kept
apart. `--set` also gives a variable to the steps, such as PIP_CERT.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
# What a runtime gives to a container besides its base, so that names resolve and connections are trusted.
OF_HOST: Final = ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt")
PATH_DEFAULT: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclass(slots=True)
class Image:
    """What the steps so far have said: what a container of this image begins with."""

    root: Path
    arguments: dict[str, str]
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH_DEFAULT})
    user: str = "root"
    workdir: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)

    def run(self, command: Sequence[str], **more: str) -> None:
        """Execute a command in the file system. Raises `subprocess.CalledProcessError`."""
        inside = ["chroot", f"--userspec={self.user}", str(self.root), "env", "-i", "-C", self.workdir]
        values = {**self.environment, **self.arguments, **more}
        subprocess.run(
            [*inside, *(f"{name}={value}" for name, value in values.items()), *command], check=True
        )


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction with what follows it, over lines that end with a backslash."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        yield name.upper(), rest.strip()


def execute(image: Image, text: str, context: Path) -> None:
    """Do every step of a Containerfile. Ends the program for an instruction that it does not know."""
    for name, rest in steps(text):
        print(f"{name} {rest}", file=sys.stderr)
        match name:
            case "FROM" | "EXPOSE" | "STOPSIGNAL" | "VOLUME":
                pass
            case "ARG":
                key, _, value = rest.partition("=")
                image.arguments.setdefault(key, value)
            case "ENV":
                image.environment |= dict(each.split("=", 1) for each in shlex.split(rest))
            case "WORKDIR":
                image.workdir = rest
                (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "COPY":
                *sources, target = shlex.split(rest)
                _copy(image, [context / each for each in sources], target)
            case "RUN":
                image.run(["sh", "-c", rest])
            case "USER":
                image.user = rest
            case "ENTRYPOINT":
                image.entrypoint = json.loads(rest)
            case "CMD":
                image.command = json.loads(rest)
            case "HEALTHCHECK":
                image.healthcheck = json.loads(re.sub(r"^.*?CMD ", "", rest))
            case _:
                sys.exit(f"try_containerfile: {name} is not known here")


def _copy(image: Image, sources: Sequence[Path], target: str) -> None:
    folder = image.root / image.workdir.lstrip("/")
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, folder / target, ignore=LEFT_OUT, dirs_exist_ok=True)
        else:
            (folder / target).mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / target)


def tried(file: Path, root: Path, arguments: Mapping[str, str]) -> Image:
    """Execute a Containerfile of this checkout in `root`; return what a container of it begins with."""
    for each in OF_HOST:
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path("/", each), root / each)
    image = Image(root, dict(arguments))
    execute(image, file.read_text(), ROOT)
    return image


def main(argv: Sequence[str]) -> None:
    """Execute the file that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m scripts.try_containerfile")
    parser.add_argument("file", type=Path)
    parser.add_argument("root", type=Path, help="a root file system, which is changed")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a build argument")
    options = parser.parse_args(argv)
    if os.geteuid() != 0:
        sys.exit("try_containerfile: chroot needs root")
    image = tried(options.file, options.root, dict(each.split("=", 1) for each in options.set))
    print(shlex.join([*image.entrypoint, *image.command]))


if __name__ == "__main__":
    main(sys.argv[1:])
