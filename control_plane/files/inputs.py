"""What the inputs of a run are, exactly: versions of data sets, and files of runs, become trees.

Law: the stored specification names each tree by its id, behind what its submitter wrote: `images/3@9f86...`.
So a run that is submitted again reads the same, and everybody can see what that was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from control_plane.files.trees import TreeStore
from control_plane.store.queue.runs import Runs
from control_plane.store.reads import RunReads
from events.files.checkpoints import PREFIX
from events.files.paths import BadPath, RunPath
from events.files.patterns import matches
from events.files.trees import RunFiles, TreeFile, is_tree_id, tree_in
from events.kinds import KINDS
from events.lifecycle import FINAL
from events.runtime.errors import Conflict, NotFound, Rejected
from events.text.input_source import OF_RUN, is_source

FILES_MAX: Final = 10_000  # of a run, that are an input
PAGE: Final = 1_000


class Inputs(Protocol):
    """Says what the inputs of runs are."""

    async def exact(
        self, kind: str, spec: Mapping[str, Any], *, by: str, later: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Return a specification with each input as a tree. Raises `Rejected` for one that there is not.

        Files of the runs `later`, which are waited for, stay as they are named until these have ended.
        """
        ...


class InputsAsGiven:
    """Leaves specifications as they are."""

    async def exact(
        self, kind: str, spec: Mapping[str, Any], *, by: str, later: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Return the specification as it is."""
        return spec


@dataclass(frozen=True, slots=True)
class KnownInputs:
    """Finds data sets, and the files of runs that have ended."""

    trees: TreeStore
    runs: Runs
    reads: RunReads

    async def exact(
        self, kind: str, spec: Mapping[str, Any], *, by: str, later: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Return a specification with each input as a tree; what is no source of one stays as it is."""
        if kind not in KINDS or not KINDS[kind].has_inputs:
            return spec
        tree, inputs = spec.get("tree"), spec.get("inputs")
        if isinstance(tree, str) and is_tree_id(tree):
            await self.trees.require(tree)
        await self._use_diff(spec)
        if not isinstance(inputs, Mapping):
            return spec
        exact = {
            name: await self._exact(each, by, later) if isinstance(each, str) and is_source(each) else each
            for name, each in inputs.items()
        }
        return {**spec, "inputs": exact}

    async def _use_diff(self, spec: Mapping[str, Any]) -> None:
        """Have the tree of a folder's differences kept, where there is one: only the run's page reads it."""
        source = spec.get("source")
        diff = source.get("diff") if isinstance(source, Mapping) else None
        if isinstance(diff, str) and is_tree_id(diff):
            await self.trees.store.use(diff)

    async def _exact(self, source: str, by: str, later: Collection[str]) -> str:
        if is_tree_id(source):
            await self.trees.require(source)
            return source
        known = tree_in(source) if is_tree_id(tree_in(source)) else ""
        named = source.removesuffix(f"@{known}") if known else source
        if named.startswith(OF_RUN):
            run_id, _, pattern = named.removeprefix(OF_RUN).partition("/")
            if run_id in later and not known and await self._is_to_come(run_id):
                return source
            found = f"{named}@{await self._files(run_id, pattern, by)}"
        else:
            name, _, number = named.partition("/")
            version = await self.trees.version(name, int(number) if number else None)
            await self.trees.require(version.tree)
            found = f"{version.id}@{version.tree}"
        if known and found != source:
            raise Conflict("other_input", f"{named!r} is not the tree {known}: write it without `@`")
        return found

    async def _is_to_come(self, run_id: str) -> bool:
        """Say whether a run may register further files."""
        found = await self.runs.find(run_id)
        return found is not None and (found.run.status not in FINAL or found.run.log_open)

    async def _files(self, run_id: str, pattern: str, by: str) -> str:
        """Return the tree of the files of a run whose names match a pattern; of all but its checkpoints."""
        found = await self.runs.find(run_id)
        if found is None:
            raise NotFound("unknown_run", f"there is no run {run_id!r}, whose files are an input")
        if found.run.status not in FINAL:
            why = f"run {run_id} is {found.run.status}: its files are an input once it has ended"
            raise Conflict("not_final", why)
        if found.run.log_open:
            why = f"run {run_id} has ended, and its files are on their way: try again, or name it in `after`"
            raise Conflict("not_final", why)
        files: dict[TreeFile, str] = {}
        keys: dict[str, str] = {}
        for each in await self._registered(run_id):
            name = str(each["name"])
            is_wanted = matches(name, pattern) if pattern else not name.startswith(PREFIX)
            if is_wanted and name not in keys:  # the latest attempt's comes first
                try:
                    file = TreeFile(RunPath(name), int(each["size"]), executable=False)
                except BadPath as error:
                    raise Rejected("bad_input", f"run {run_id}: {error.message}") from error
                files[file], keys[name] = str(each["sha256"]), str(each["key"])
        if not files:
            of = f" that match {pattern!r}" if pattern else ""
            raise NotFound(
                "no_files", f"run {run_id} has kept no files{of}: `podfleet artifacts list {run_id}`"
            )
        tree = RunFiles.made_of(run_id, files)
        return await self.trees.add_run_files(
            tree, [keys[each.path] for each in tree.files if each.size], by=by
        )

    async def _registered(self, run_id: str) -> Sequence[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        after: Sequence[Any] | None = None
        while True:
            page = await self.reads.artifacts(run_id, after, PAGE)
            found += page.documents
            after = page.stopped_at
            if len(found) > FILES_MAX:
                raise Rejected(
                    "too_many_files", f"run {run_id} has more than {FILES_MAX:,} files: name a pattern"
                )
            if after is None:
                return found
