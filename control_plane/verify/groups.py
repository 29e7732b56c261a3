"""The invariants of groups: counters and closed states against the members, pure.

A group that is not closed may be between two steps: its counters are those of its last look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from control_plane.model.groups.plan import end
from control_plane.model.groups.status import CLOSED, GroupStatus
from control_plane.model.ownership import strangers
from control_plane.store.verify.groups import Standing

SHOWN_MAX: Final = 5


def violations(standing: Standing) -> Iterator[tuple[str, str]]:
    """Yield the invariant and a description of each violation."""
    group = standing.group
    first, filled, following = group["first"], group["filled"], group["next"]
    status = GroupStatus(group["status"])
    if not 0 <= first <= filled <= following:
        yield "group-slots", f"its slots begin at {first}, are filled to {filled} and decided to {following}"
    if standing.strays:
        shown = ", ".join(standing.strays[:SHOWN_MAX])
        yield "group-slots", f"runs have slots that nobody decided: {shown}"
    if standing.shared:
        yield "slot-shared", f"several runs share the slot of {', '.join(standing.shared[:SHOWN_MAX])}"
    if not filled - first <= standing.slots <= following - first:
        yield "group-slots", f"{standing.slots} slots have runs, {filled - first} are said to have them"
    if names := strangers("groups", group):
        yield "field-without-writer", f"nobody writes {', '.join(names)}"
    if status not in CLOSED:
        return
    if standing.members.live or filled != following:
        yield "group-closed", f"it is {status}, and {standing.members.live} members have not ended"
    elif status != (due := _end(standing)):
        yield "group-closed", f"it is {status}, and its members make it {due}"
    if group["counts"] != standing.members.counts():
        yield "group-counts", f"stored is {group['counts']}, the members are {standing.members.counts()}"


def _end(standing: Standing) -> GroupStatus:
    """Return the status that the members of a closed group give it."""
    group = standing.group
    return end(standing.members, is_canceled=group["canceled"], needs_all=bool(group["plan"].get("nodes")))
