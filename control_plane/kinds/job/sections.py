"""The section of a job on the page of its run: its command, its folder, its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.files.trees import TreeStore
from control_plane.server.web.sections import RunPage, Section
from events.files.trees import is_tree_id, tree_in
from events.runtime.errors import PodfleetError
from events.text.input_source import OF_RUN

UNTOLD: Final = {"commit": "", "branch": "", "remote": "", "is_dirty": False, "diff": ""}
FILES_SHOWN: Final = 200
DIFF_BYTES_MAX: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class ShownInput:
    """An input: its folder, what it is, its tree, and the run that it comes from."""

    name: str
    source: str
    tree: str
    run: str


@dataclass(frozen=True, slots=True)
class ShownTree:
    """The files of a working folder; `problem` says why they are not shown."""

    id: str
    files: Sequence[tuple[str, int]] = ()
    count: int = 0
    size: int = 0
    problem: str = ""


async def _job(page: RunPage) -> Mapping[str, Any] | None:
    spec, trees = page.run.spec or {}, page.deps.tree_store
    tree, source = spec.get("tree"), spec.get("source")
    source = {**UNTOLD, **source} if isinstance(source, Mapping) else UNTOLD
    return {
        "command": str(spec.get("command", "")),
        "tree": await _tree(trees, tree) if isinstance(tree, str) and is_tree_id(tree) else None,
        "source": source,
        "git": {"secret": "", **git} if isinstance(git := spec.get("git"), Mapping) else None,
        "diff": await _diff(trees, source.get("diff")),
        "inputs": list(shown_inputs(spec.get("inputs"))),
        "env": spec.get("env") if isinstance(spec.get("env"), Mapping) else {},
    }


def shown_inputs(inputs: object) -> Sequence[ShownInput]:
    """Return the inputs of a specification, as a page shows them."""
    found = inputs.items() if isinstance(inputs, Mapping) else ()
    return [_input(str(name), str(each)) for name, each in found]


def _input(name: str, text: str) -> ShownInput:
    tree = tree_in(text)
    source = text.removesuffix(f"@{tree}") if tree != text else text
    run = source.removeprefix(OF_RUN).partition("/")[0] if source.startswith(OF_RUN) else ""
    return ShownInput(name, source, tree if is_tree_id(tree) else "", run)


async def _tree(trees: TreeStore, tree_id: str) -> ShownTree:
    try:
        tree = await trees.manifest(tree_id)
    except PodfleetError as error:
        return ShownTree(tree_id, problem=error.message)
    files = [(str(each.path), each.size) for each in tree.files[:FILES_SHOWN]]
    return ShownTree(tree_id, files, len(tree.files), tree.size)


async def _diff(trees: TreeStore, tree_id: object) -> str:
    if not (isinstance(tree_id, str) and is_tree_id(tree_id)):
        return ""
    try:
        return (await trees.only_file(tree_id, DIFF_BYTES_MAX)).decode(errors="replace")
    except PodfleetError as error:
        return error.message


SECTIONS: Final = (Section(15, "job/job.html", _job, tab="spec", anchors=("job",)),)
