"""Packages of a few bytes, made in a folder that serves as an index."""

from __future__ import annotations

import io
import tarfile
import textwrap
import zipfile
from pathlib import Path

BACKEND = """
import pathlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    {code}
    name = "{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for path, text in {files!r}.items():
            wheel.writestr(path, text)
    return name
"""


def files_of(name: str, body: str, requires: tuple[str, ...] = ()) -> dict[str, str]:
    """Return what a wheel has, by its paths."""
    wanted = "".join(f"Requires-Dist: {each}\n" for each in requires)
    info = f"{name}-1.0.dist-info"
    return {
        f"{name}/__init__.py": body,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{wanted}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-says={name}:main\n",
        f"{info}/RECORD": "",
    }


def wheel(folder: Path, name: str, body: str, requires: tuple[str, ...] = ()) -> None:
    """Write a wheel."""
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in files_of(name, body, requires).items():
            archive.writestr(path, text)


def source(folder: Path, name: str, body: str, code: str) -> None:
    """Write a source distribution, whose build runs `code`, and needs no package of an index."""
    backend = BACKEND.format(
        code=textwrap.indent(code, "    ").strip(), name=name, files=files_of(name, body)
    )
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project = f'[project]\nname = "{name}"\nversion = "1.0"\n'
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for path, text in (
            ("pyproject.toml", project + system),
            ("backend.py", backend),
            ("PKG-INFO", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"),
        ):
            found = tarfile.TarInfo(f"{name}-1.0/{path}")
            found.size = len(text.encode())
            archive.addfile(found, io.BytesIO(text.encode()))
