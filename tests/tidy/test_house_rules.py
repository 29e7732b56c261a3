"""The house rules that no other tool enforces."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.kinds import KINDS
from scripts.locked import LOCK, read_lock
from testing.mutation.related_tests import imported

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("podfleet", "control_plane", "pod_worker", "events", "stages")
FOLDERS: Final = {*PACKAGES, "testing", "scripts", "tests", "docs", "deploy", ".ci"}
SMALL_FILES: Final = {
    *(
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "SECURITY.md",
        "Makefile",
        "pyproject.toml",
        "constraints.txt",
    ),
    *("init_pod.sh", "start_worker.sh", ".gitignore", ".env.example", ".git"),
}
NOT_OURS: Final = {
    *(".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".import_linter_cache"),
    *(".hypothesis", ".podfleet", ".env", ".coverage", "build", "dist", "podfleet.egg-info"),
}
NAMES_WITHOUT_MEANING: Final = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

# one machine's places and one network's hosts; in pieces, so that this file does not hold them either
PLACES: Final = re.compile(r"(?<![\w.-])/(?:" + "|".join(("work", "root", "home")) + ")/")
HOSTS: Final = re.compile("|".join(re.escape(a + "." + b) for a, b in (
    ("pypi", "org"), ("pythonhosted", "org"), ("download.pytorch", "org"), ("registry.npmjs", "org"),
    ("deb.debian", "org"), ("conda.anaconda", "org"), ("docker", "io"), ("ghcr", "io"),
)))  # fmt: skip

# what Playwright answers at once, of a page that may not be whole yet
UNWAITED: Final = {
    *("all", "all_inner_texts", "all_text_contents", "count", "title"),
    *("is_checked", "is_disabled", "is_editable", "is_enabled", "is_hidden", "is_visible"),
}

LINES_MAX: Final = 70
KNOWN_LONG: Final = Path(__file__).with_name("long_functions.txt")
# loaded by name: the console script, and the child
ENTRIES: Final = {
    "podfleet.main",
    "podfleet.run",
    "pod_worker.child.main",
    "pod_worker.child.fork_server_main",
    "pod_worker.child.confinement_trial",
}
# what the control plane loads of a kind's package (control_plane/model/kind_packages.py)
IN_A_PACKAGE: Final = ("parts", "sections", "routes", "told", "estimate", "upkeep")
GENERATOR: Final = ROOT / "scripts" / "generate_docs.py"


def _files() -> Iterator[Path]:
    for directory, folders, names in os.walk(ROOT):
        skipped = NOT_OURS | {".git"}  # a file, in a second working tree of the same clone
        folders[:] = [name for name in folders if name not in skipped]
        yield from (Path(directory, name) for name in names if name not in skipped)


def _texts() -> Iterator[tuple[Path, str]]:
    for path in _files():
        try:
            yield path.relative_to(ROOT), path.read_text()
        except UnicodeDecodeError:
            continue  # an image


def _modules(*roots: str) -> dict[str, Path]:
    """Return dotted name to file of every module below the folders `roots`."""
    found = {}
    for root in roots:
        for path in sorted((ROOT / root).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@dataclass(frozen=True)
class Source:
    """What the rules ask of a file: does it say what it is, its functions' lines, what it may import."""

    is_silent: bool
    lines: Mapping[str, int]
    imported: frozenset[str]


@functools.cache
def _source(path: Path) -> Source:
    text = path.read_text()
    tree = ast.parse(text)
    lines: dict[str, int] = {}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            lines[node.name] = max(length, lines.get(node.name, 0))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)  # a registry names what it loads
        else:
            names.update(imported(node))
    return Source(bool(text) and not ast.get_docstring(tree), lines, frozenset(names))


def test_the_top_level_holds_only_what_belongs_there() -> None:
    assert {entry.name for entry in ROOT.iterdir()} - NOT_OURS - FOLDERS - SMALL_FILES == set()


def test_no_file_names_a_place_of_one_machine_or_a_host_of_a_registry() -> None:
    found = [
        f"{path}:{number}: {line.strip()[:80]}"
        for path, text in _texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if PLACES.search(line) or HOSTS.search(line)
    ]
    assert found == []


def test_the_search_for_places_and_hosts_finds_them() -> None:
    for line in ("cd /" + "work/main", 'open("/' + 'root/x")', "-i https://pypi." + "org/simple"):
        assert PLACES.search(line) or HOSTS.search(line)
    assert not PLACES.search("/workspace/data and our.home/page")


def test_every_module_says_what_it_is() -> None:
    silent = [
        name
        for name, path in _modules(*PACKAGES, "testing", "scripts", "tests").items()
        if _source(path).is_silent
    ]
    assert silent == []


def test_every_module_has_a_name_that_is_its_concept() -> None:
    names = {name.rpartition(".")[2] for name in _modules(*PACKAGES, "testing", "scripts")}
    assert names & NAMES_WITHOUT_MEANING == set()


def test_the_tests_of_pages_wait_for_what_they_expect() -> None:
    found = [
        f"{path.name}:{each.lineno}"
        for path in (ROOT / "tests" / "integration" / "pages").glob("test_*.py")
        for claim in ast.walk(ast.parse(path.read_text()))
        if isinstance(claim, ast.Assert)
        for each in ast.walk(claim)
        if isinstance(each, ast.Attribute) and each.attr in UNWAITED
    ]
    assert found == [], "say it with playwright's expect(), which waits"


def _long_functions() -> dict[str, int]:
    return {
        f"{name}.{function}": lines
        for name, path in _modules(*PACKAGES, "testing", "scripts").items()
        for function, lines in _source(path).lines.items()
        if lines > LINES_MAX
    }


def test_no_function_newly_grows_beyond_seventy_lines() -> None:
    """Functions that were long when the list was made may stay on it; the list only shrinks."""
    known = {line for line in KNOWN_LONG.read_text().splitlines() if line and not line.startswith("#")}
    long = _long_functions()
    assert {name: lines for name, lines in long.items() if name not in known} == {}, (
        "split where a name appears"
    )
    assert known - set(long) == set(), "shorter now: take it off tests/tidy/long_functions.txt"


def test_every_module_is_used_by_the_program() -> None:
    """A module that only tests import is dead, unless it is made for tests."""
    ours = _modules(*PACKAGES)
    used = {*ENTRIES, *(f"{kind.package}.{name}" for kind in KINDS.values() for name in IN_A_PACKAGE)}
    for name, path in {**ours, **_modules("testing", "scripts")}.items():
        imported = {each for each in _source(path).imported if each != name}
        beside = name.rpartition(".")[0]
        used |= imported | {
            f"{beside}.{each.removesuffix('.py')}" for each in imported if each.endswith(".py")
        }
    for path in _modules("tests").values():
        used.update(
            each for each in _source(path).imported if each.endswith(".testing") or ".testing." in each
        )
    unused = {
        name
        for name, path in ours.items()
        if name not in used and path.name not in ("__init__.py", "__main__.py", "die_with_parent.py")
    }
    assert unused == set()


def test_generated_documents_are_current() -> None:
    answer = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_gate_of_the_ci_is_the_command_of_the_readme() -> None:
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text().splitlines()
        if line and not line.startswith(("#", "set ", "cd "))
    ]
    assert commands == ["exec make test"]


def test_every_dependency_is_locked_to_one_version_by_hashes() -> None:
    text = LOCK.read_text()
    pins = read_lock(text)
    lines = [line for line in text.replace("\\\n    ", "").splitlines() if not line.startswith("#")]
    assert lines == [
        pin.line().replace("===", "==") for pin in pins.values()
    ]  # nothing else, and no name twice
    assert list(pins) == sorted(pins)
    assert [pin.name for pin in pins.values() if not pin.hashes] == []
    assert {name for name, _ in _dependencies()} - pins.keys() == set()


def _dependencies() -> set[tuple[str, str]]:
    """Return the name and the extra of every dependency that pyproject.toml names."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = {
        "all": pyproject["project"]["dependencies"],
        "build": pyproject["build-system"]["requires"],
        **pyproject["project"]["optional-dependencies"],
    }
    return {
        (re.split(r"[^\w-]", line)[0].replace("_", "-"), extra)
        for extra, lines in lists.items()
        for line in lines
    }


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]+) \|", text, re.MULTILINE)
    explained = {
        (name.replace("_", "-"), extra)
        for names, extras in rows
        for name in re.findall(r"`([^`]+)`", names)
        for extra in extras.split(", ")
    }
    assert explained == _dependencies()
    reasons = text.partition("## Why this one")[2].partition("\n## ")[0]
    named = {
        name for names in re.findall(r"^- ([^:]+):", reasons, re.MULTILINE) for name in names.split(", ")
    }
    assert named == {f"`{name}`" for names, _ in rows for name in re.findall(r"`([^`]+)`", names)}


# whose code stands in a run's log or document, and whose is told to whoever asked
OF_A_RUN: Final = {"PipelineError", "RunFailed", "ArtifactFailed", "IdeationFailed", "FileUnusable"}
OF_A_REQUEST: Final = {
    *("Transient", "Barred", "Rejected", "NotFound", "Conflict", "Unauthorized", "Forbidden", "RateLimited"),
    *("_Refused", "_refuse", "PodfleetError"),
}
# they become the code of a run's failure, or of an artifact's
PASSED_ON: Final = {
    "DISK_FULL",
    "DISK_FAILED",
    "OUTBOX_FULL",
    "UPLOAD_REFUSED",
    "STORAGE_REFUSED",
    "BAD_NAME",
}


def _codes(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each code that is written down where an error or a failure is made, with the name of that."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        given = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "code")]
        for each in given:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield node.func.id, each.value


def test_the_codes_of_a_runs_failure_are_in_capitals_and_no_others() -> None:
    ours = _modules(*PACKAGES)
    made = [(name, *each) for name, path in ours.items() for each in _codes(ast.parse(path.read_text()))]
    assert len({code for _, kind, code in made if kind in OF_A_RUN | OF_A_REQUEST}) > 60, "it finds codes"
    wrong = {
        (name, code)
        for name, kind, code in made
        if (kind in OF_A_RUN and not code.isupper())
        or (kind in OF_A_REQUEST and not code.islower() and code not in PASSED_ON)
    }
    assert wrong == set()
