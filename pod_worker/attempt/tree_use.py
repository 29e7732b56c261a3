"""The file trees that a run names, held in the pod's cache while its attempt goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import httpx

from events.delivery.control_plane_client import ControlPlane
from events.files.tree_fetch import TreeFetch
from events.files.trees import named_trees
from events.kinds import KINDS
from events.queue.claims import Claim
from events.runtime.clock import Clock
from pod_worker.files.trees import TreeCache, TreesOfRun

Paths = Mapping[str, str]  # the folder of each tree, by its id


class Trees(Protocol):
    """Where the trees of runs lie on this pod."""

    def used(self, claim: Claim, check: Callable[[], None]) -> AbstractContextManager[Paths]:
        """Have the trees that a run names; they stay until the block ends.

        `check` is asked now and then, and raises where nobody waits any more. Raises that, `Rejected` for
        a tree that cannot be had, and `Transient`.
        """
        ...


class NoTrees:
    """A pod whose runs name no trees."""

    def used(self, claim: Claim, check: Callable[[], None]) -> AbstractContextManager[Paths]:
        """Have none."""
        return nullcontext({})


@dataclass(frozen=True, slots=True)
class PodTrees:
    """Fetches trees into the pod's cache."""

    cache: TreeCache
    control_plane: ControlPlane
    storage: httpx.Client
    clock: Clock

    @contextmanager
    def used(self, claim: Claim, check: Callable[[], None]) -> Iterator[Paths]:
        """Have the trees that a run names."""
        fetch = TreeFetch(TreesOfRun(self.control_plane, claim), self.storage, self.clock, check)
        with ExitStack() as stack:
            kind = KINDS.get(claim.kind)
            named = sorted(named_trees(claim.spec)) if kind is not None and kind.has_inputs else []
            yield {each: str(stack.enter_context(self.cache.used(each, fetch))) for each in named}
