"""The section of the search tree on the page of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import escape

from control_plane.kinds.experiment.code_change import with_changes
from control_plane.kinds.experiment.parts import NODES_MAX, TREE, page_of_nodes
from control_plane.kinds.experiment.picture import tree_picture
from control_plane.kinds.experiment.tree import TEXTS
from control_plane.reads.reading import Json, Reading
from control_plane.server.web.drawing.figures import figures
from control_plane.server.web.sections import PAPER, RunPage, Section
from events.formatting import TEXT_SHOWN_CHARS

TEXTS_SHOWN_CHARS: Final = 1024 * 1024  # codes and logs together, as a page writes them
NODES_WITH_CODE: Final = 100  # on one page; of the others the API has it


async def _search_tree(page: RunPage) -> Mapping[str, Any] | None:
    nodes = page.run.rows["nodes"]
    if not nodes:
        return None
    whole = await _with_code(page.deps.reading, page.run.id, nodes)
    return {
        "picture": tree_picture(nodes),
        # beside the event loop: pods wrote the codes
        "tree": by_stage(await asyncio.to_thread(with_changes, whole)),
        "figures": figures(await page.visible(), nodes),
    }


async def _with_code(reading: Reading, run_id: str, nodes: Sequence[Json]) -> list[Json]:
    """Return the nodes, the first ones with their code and output."""
    whole: dict[tuple[str, str], Json] = {}
    after: str | None = None
    for _ in range(NODES_WITH_CODE // NODES_MAX):
        page = await page_of_nodes(reading, run_id, after=after)
        whole |= {(node["stage"], node["id"]): node for node in page.items}
        after = page.next
        if after is None:
            break
    left, shown = TEXTS_SHOWN_CHARS, []
    for node in nodes:
        texts = {name: whole.get((node["stage"], node["id"]), {}).get(name) for name in TEXTS}
        left -= sum(len(escape(each[:TEXT_SHOWN_CHARS])) for each in texts.values() if each)
        shown.append({**node, **(texts if left >= 0 else dict.fromkeys(TEXTS))})
    return shown


def by_stage(nodes: Sequence[Json]) -> Mapping[str, Sequence[Json]]:
    """Return the nodes of each stage; stages and nodes are in the order of arrival."""
    stages: dict[str, list[Json]] = {}
    for node in nodes:
        stages.setdefault(node["stage"], []).append(node)
    return stages


OF_NODES: Final = ("n-", "p-", "c-", "l-", "s-", "g-", "f-")
SECTIONS: Final = (
    Section(TREE.rank, "experiment/search_tree.html", _search_tree, anchors=OF_NODES),
    *PAPER,
)
